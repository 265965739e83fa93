"""What furniture says: the words, phrases and patterns of `rules_lines`, as data.

Words come in the languages of the web's common page generators. Patterns match a whole line without the blanks at its
ends and are bounded, so that their time is linear in the line.
"""

from __future__ import annotations

import re
from typing import Final


def _listed(text: str) -> frozenset[str]:
    return frozenset(item.strip() for item in text.replace("\n", " ").split("|"))


MENU_WORDS: Final = _listed(
    """
    prev | previous | next | up | home | top | contents | index | back | search | menu | navigation | main page | home page |
    front page | site map | sitemap | help | module | modules | general index | about | about us | contact | contact us |
    feedback | print | previous page | next page | previous chapter | next chapter | previous section | next section | first |
    last | forward |
    précédent | suivant | accueil | haut | sommaire | retour | niveau supérieur | page précédente | page suivante |
    zurück | weiter | nach oben | startseite | anfang | zum anfang | inhalt | anmelden | registrieren |
    anterior | siguiente | próximo | subir | inicio | início | principal | arriba | iniciar sesión |
    precedente | successivo | indietro | avanti | pagina principale | se connecter | s'inscrire |
    назад | вперед | вперёд | далее | вверх | начало | предыдущий | следующий | пред. | след. | уровень выше |
    poprzedni | następny | wstecz | dalej | powrót | początek dokumentu | předcházející | další | domů | nahoru |
    戻る | 次へ | 前へ | ホーム | 上に戻る | 目次 | 索引 | ログイン | 上一页 | 下一页 | 上一頁 | 下一頁 | 首页 | 首頁 | 返回 |
    起始页 | 登录 | 注册 | 이전 | 다음 | 홈 | terms | privacy | legal | imprint | impressum | disclaimer |
    faq | news | blog | downloads | download |
    log in | sign in | sign up | log out | sign out | login | register | my account | checkout | view cart | shopping cart |
    share | tweet | rss feed | accept all | reject all | cookie policy | privacy policy | terms of use | terms of service |
    terms and conditions | expand all | collapse all | this page | quick links | on this page | related topics
    """
)
"""Alone these may be headings; two of them within a run of short lines are a menu."""

_PHRASES: Final = {
    "line.nav": """
        skip to content | skip to main content | skip to navigation | skip navigation | jump to navigation | jump to content |
        back to top | return to top | go to top | toggle navigation | toggle sidebar | toggle menu | quick search |
        show source | view page source | edit on github | edit this page | previous topic | next topic |
        go to the source code of this file. |
        search in docstrings | toggle private api | view in hierarchy | go to the latest version of this document. |
        search this site | hide navigation | show navigation | main navigation | site navigation | report a bug on this page
        """,
    "line.account": """
        create an account | forgot password? | forgot your password? | remember me | add to cart | login / register |
        log in / register | sign in / register | log in or sign up
        """,
    "line.share": """
        pin it | share this | share this page | share this article | share on facebook | share on twitter | share on linkedin |
        share via email | follow us | follow us on twitter | like us on facebook | subscribe now | subscribe to our newsletter |
        sign up for our newsletter | email this | print this page | like this: | leave a comment | leave a reply |
        post a comment | read more | continue reading | click here to comment
        """,
    "line.cookie": """
        accept cookies | accept all cookies | cookie settings | cookie preferences | manage cookies |
        do not sell my personal information
        """,
}
PHRASES: Final = {phrase: rule for rule, phrases in _PHRASES.items() for phrase in _listed(phrases)}
"""What nobody writes as a heading: furniture alone. Phrase -> rule."""

CONTENTS_LABELS: Final = _listed(
    """
    table of contents | contents | contents: | table of contents: | short contents | list of figures | list of tables |
    in this chapter | on this page | содержание | оглавление | 目录 | 目錄 | 目次 | sommaire | table des matières | índice |
    tabla de contenidos | contenido | sumário | inhaltsverzeichnis | inhalt | indice | sommario | spis treści | obsah | 목차 |
    tartalomjegyzék | inhoudsopgave | innehåll
    """
)

DECORATION: Final = " \t*•·|»«›‹><[]()→←↑▲▼◄►▶◀-–—:"
ARROWS: Final = re.compile(r"[<>«»‹›←→↑ ]{1,5}$")
BRACKETS: Final = re.compile(r"(?:\[ ?[^\[\]\n]{1,24} ?\] ?){3,}")
BRACKET_ITEM: Final = re.compile(r"\[ ?([^\[\]]{1,24}?) ?\]")
URL: Final = re.compile(r"[<(]?(?:https?|ftp)://[^\s<>]{3,300}[>)]?[.,;]?")

INFO_NODE: Final = re.compile(
    r"(?:Next|Prev(?:ious)?|Up|Node|File): ?[^,]{1,80}(?:, *(?:Next|Prev(?:ious)?|Up|Node): ?[^,]{1,80})+"
)
DOXYGEN_BAR: Final = re.compile(
    r"(?:(?:Public |Protected |Private |Static )*(?:Macros|Functions|Variables|Typedefs|Enumerations|Enumerator|Classes|"
    r"Data Structures|Namespaces|Files|Directories|Modules|Member Functions|Attributes|Types|Slots|Signals|Properties|"
    r"List of all members)(?: \| |$)){2,}"
)
CHAPTER_BAR: Final = re.compile(r"Goto Chapter: (?:Top )?(?:[0-9A-Z]+ ?)+")
SYMBOL: Final = re.compile(
    r"Definition(?: at line \d+ of file [^\s]+\.|: [^\s]+:\d+)|"
    r"(?:References|Referenced by) [\w:~<>, ]{1,80}\(\)[\w:~<>(), ]{0,400}\.|"
    r"The documentation for this (?:class|struct|file) was generated from the following files?:|"
    r"(?:Include|Collaboration|Inheritance|Caller|Call) (?:dependency |diagram |graph )*(?:graph|diagram) for [^\s]{1,80}:?"
)
GENERATED: Final = re.compile(
    r"(?:this (?:page|file|document|html) (?:was |is )?)?"
    r"(?:(?:automatically )?generated (?:automatically )?(?:by|with|using|on)\b|created (?:using|with) |powered by |"
    r"built with |proudly powered|theme by |page last (?:modified|updated)|last (?:modified|updated) (?:on|by|:))"
    r"[^.]{0,60}(?:\.\d[^.]{0,30})*\.?",
    re.IGNORECASE,
)
SCRIPT: Final = re.compile(
    r"(?:please )?(?:enable|turn on|activate) javascript\b.{0,100}|"
    r".{0,60}\bjavascript (?:is|must be|has to be|to be) (?:not |currently )?"
    r"(?:enabled|disabled|required|supported|available)\b.{0,100}|"
    r".{0,40}(?:requires|needs) javascript\b.{0,60}|"
    r"this browser is not able to show .{1,100}|your browser (?:does not|doesn't) support .{1,80}",
    re.IGNORECASE,
)
IMAGE: Final = re.compile(
    r"\[(?:D|IMG|IMAGE|image|img|logo|Logo|icon|photo|picture|figure)\]|"
    r"(?:Image|Photo|Figure|Picture|Bild)\.(?:png|jpe?g|gif|svg)"
)
COOKIE: Final = re.compile(
    r"(?:we|this (?:web)?site|our (?:web)?site|our partners|the site)\b.{0,40}\buses? (?:of )?cookies\b.{0,200}|"
    r"by (?:continuing to|using|clicking|browsing).{0,80}\b(?:you (?:agree|accept|consent)|cookies)\b.{0,150}|"
    r"cookies (?:help us|are used)\b.{0,200}",
    re.IGNORECASE,
)
SHARE: Final = re.compile(
    r"(?:share|follow|like|find|join|tweet)(?: (?:this|us|me|it|page|article|post|story))* (?:on|via|with|at) "
    r"(?:facebook|twitter|linkedin|pinterest|reddit|whatsapp|instagram|e-?mail|google\+|youtube|telegram|mastodon)\b.{0,60}|"
    r"subscribe (?:to|via) .{0,40}(?:newsletter|rss|feed|updates|channel|e-?mail).{0,40}|sign up for .{0,30}newsletter.{0,40}",
    re.IGNORECASE,
)

_STARTS: Final[tuple[tuple[str, str, re.Pattern[str]], ...]] = (
    ("line.nav", "next: | prev: | previous: | up: | node: | file:", INFO_NODE),
    (
        "line.nav",
        "public | protected | private | static | macros | functions | variables | typedefs | enumerations | enumerator |"
        "classes | data | namespaces | files | directories | modules | member | attributes | types | slots | signals |"
        "properties | list",
        DOXYGEN_BAR,
    ),
    ("line.nav", "goto", CHAPTER_BAR),
    (
        "line.symbol",
        "definition | definition: | references | referenced | the | include | collaboration | inheritance | caller | call",
        SYMBOL,
    ),
    (
        "line.generated",
        "this | automatically | generated | created | powered | built | proudly | theme | page | last",
        GENERATED,
    ),
    ("line.image", "d | img | image | logo | icon | photo | picture | figure | image.png | image.jpg | image.gif", IMAGE),
    ("line.cookie", "we | this | our | the | by | cookies", COOKIE),
    ("line.share", "share | follow | like | find | join | tweet | subscribe | sign", SHARE),
    ("line.script", "this | your", SCRIPT),
)
STARTS: Final[dict[str, tuple[tuple[str, re.Pattern[str]], ...]]] = {
    word: tuple((rule, pattern) for rule, words, pattern in _STARTS if word in _listed(words))
    for _, all_words, _ in _STARTS
    for word in _listed(all_words)
}
"""First word of a line, in small letters and without decoration -> the rules that it may fall to and the whole line."""

COPYRIGHT: Final = re.compile(
    r"[#*/;.\-\s\"'%!|]*(?:(?:SCCS|RCS)?:? ?%W% %E% )?(?:portions |program |documentation |text |content )?"
    r"(?:copyright(?:ed)?\b(?!:)[^.;]{0,40}?(?:\(c\)|©|\b(?:19|20)\d\d\b|\[name\])|"
    r"© ?(?:copyright\b|(?:19|20)\d\d|\w[^\n]{0,60}(?:19|20)\d\d)|\(c\) ?(?:19|20)\d\d|all rights reserved\b)",
    re.IGNORECASE,
)
LICENCE: Final = re.compile(
    r"permission (?:is|to) |licen[cs]e|redistribut|distribut\w+ under|without (?:any )?warranty|all rights reserved|"
    r"gnu (?:general|free)|freely|public domain|copying and distribution",
    re.IGNORECASE,
)
BADGE: Final = re.compile(
    r"(?:\[?!\[[^\]\n]{0,120}\]\([^)\n]{1,300}\)(?:\]\([^)\n]{1,300}\))?\s*)+|"
    r"(?:\[?!\[[^\]]{0,80}\]\[[^\]]{0,80}\]\]?(?:\[[^\]]{0,80}\])?\s*)+"
)
BADGE_HINT: Final = re.compile(
    r"badge|shields\.io|travis|appveyor|codecov|coveralls|weblate|widget|status|build|version|licen[cs]e|pypi|npm|downloads|"
    r"chat|gitter|ci\b",
    re.IGNORECASE,
)
