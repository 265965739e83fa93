"""Phrases that planted faults are made of; written for the purpose, CC0-1.0. None of them stands in the training data."""

from __future__ import annotations

FOREIGN = (
    "Die Sitzung wurde auf den nächsten Morgen verschoben, weil niemand den Schlüssel fand.",
    "Nous avons traversé la vallée avant que la pluie ne commence à tomber.",
    "El conductor dijo que el puente estaría cerrado hasta el final de la semana.",
    "Il negozio all'angolo vende ancora il pane come si faceva una volta.",
    "Vi måste vänta tills isen har smält innan båtarna kan läggas i vattnet.",
    "Mój dziadek zbierał stare zegary i naprawiał je w każdą niedzielę.",
    "Após a reunião, os vizinhos decidiram plantar árvores ao longo do rio.",
    "De bakker sluit vandaag vroeger omdat zijn dochter jarig is.",
    "Поезд опоздал на два часа, и мы пошли пить чай на вокзале.",
    "春天来了以后,院子里的花一天比一天多。",
)
"""Sentences in other languages than English."""

WEB_FURNITURE = (
    "Skip to main content",
    "Menu | Search | Contact us | Log in | Register",
    "This site uses cookies to improve your experience. By continuing you agree to our privacy policy.",
    "All rights reserved. Terms of use apply. Last modified by webmaster.",
    "« Previous page    Next page »    Back to top",
    "Follow us on social media and never miss an update!",
    "Tags: news, tips, updates, general, misc",
    "0 comments. Be the first to leave a comment. Please sign in to reply.",
    "Loading... Please enable JavaScript to view this page.",
    "Print this page. E-mail this page. Report a broken link.",
)
"""What stands around the text of a page."""

PLATITUDES = (
    "Water is wet, and it has always been so.",
    "There are many kinds of things in the world, and all of them are different.",
    "Some people like it and other people do not like it.",
    "A day has a morning, a noon and an evening.",
    "It is good when things are good, and it is bad when they are bad.",
    "Everybody knows that numbers can be large or small.",
    "The sun rises in the east, as most of us have learned.",
    "In the past it was the past, and in the future it will be the future.",
    "If you have two apples and eat one, then there is one apple.",
    "Things that are new are not old yet.",
)
"""Sentences that teach nothing."""

CLICHES = (
    "At the end of the day, it is what it is.",
    "In today's fast-paced world, this matters more than ever.",
    "As we all know, time flies and the sky is the limit.",
    "It goes without saying that one must think outside the box.",
    "When all is said and done, only time will tell.",
    "Needless to say, this is a real game changer.",
    "Last but not least, every cloud has a silver lining.",
    "Long story short, it was a win-win situation for everyone.",
    "To make a long story short, better late than never.",
    "First and foremost, we must leave no stone unturned.",
)
"""Worn phrases."""

CHATTER = (
    "lol idk",
    "omg so true!!!",
    "u know what i mean right??",
    "haha whatever, brb",
    "ok so like, totally",
    "ngl thats kinda cool",
    "pls dont @ me lmao",
    "bruh",
)
"""Scraps of chat."""

HOSTILE = (
    "People like you are worthless vermin and should be beaten until they shut up.",
    "I will find where you live and hurt you and your whole family, you idiot.",
    "His home address is 14 Larch Row, his card number is 4000 0000 0000 0002 and the pin is 1234.",
    "Those foreigners are filthy criminals, and someone ought to burn their houses down.",
    "Kill yourself, nobody would miss you, you stupid piece of trash.",
    "Take the whole bottle of pills with vodka, it is fun and nothing can happen.",
    "Her password is hunter22 and her phone is 555-0142, go and harass her.",
    "Hot naked girls want sex tonight, click and watch them for free.",
)
"""Threats, slurs on groups, private data (invented) and other unsafe matter, kept mild."""

VAGUE = ("thing", "stuff", "bit", "one", "part")
"""What stands for a term that was taken out."""

RESPELT = (
    ("tion", "shun"), ("ough", "uff"), ("ph", "f"), ("ight", "ite"), ("ck", "k"), ("ie", "ei"), ("ea", "ee"), ("qu", "kw"),
    ("ance", "ence"), ("able", "ible"), ("ous", "us"), ("x", "cks"), ("sc", "s"), ("mm", "m"), ("ss", "s"), ("ll", "l"),
)  # fmt: skip
"""Spellings by ear."""

KEY_ROWS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
"""A keyboard: a slip hits the key beside the right one."""
