"""What a page must have so that everyone can use it: names, an order of headings, contrast. Looked at in the real browser.

assert problems(page) == []
"""

from __future__ import annotations

from typing import Any

_LOOK = r"""
() => {
  const found = [];
  const seen = e => { const r = e.getBoundingClientRect(), s = getComputedStyle(e);
    return r.width > 0 && r.height > 0 && s.visibility !== 'hidden' && s.display !== 'none' && +s.opacity > 0.05; };
  const named = e => {
    const by = (e.getAttribute('aria-labelledby') || '').split(/\s+/)
      .map(i => document.getElementById(i)?.textContent || '').join('');
    const label = e.labels && [...e.labels].map(l => l.textContent).join('');
    const icons = [...e.querySelectorAll('.q-icon, [aria-hidden=true]')].map(i => i.textContent).join('');
    const text = (e.textContent || '').replace(icons, '');
    return [by, e.getAttribute('aria-label'), label, e.getAttribute('title'), e.getAttribute('alt'),
            ['INPUT', 'TEXTAREA', 'SELECT'].includes(e.tagName) ? '' : text].some(t => t && t.trim());
  };
  const said = e => e.outerHTML.slice(0, 140);
  const roles = ['button', 'slider', 'img', 'tab', 'region'].map(r => `, [role=${r}]`).join('');
  const controls = 'a[href], button, input, textarea, select' + roles;
  for (const e of document.querySelectorAll(controls))
    if (seen(e) && !e.closest('[aria-hidden=true]') && !named(e)) found.push('no name: ' + said(e));
  const ids = [...document.querySelectorAll('[id]')].map(e => e.id);
  for (const i of new Set(ids.filter((x, k) => ids.indexOf(x) !== k))) found.push('id twice: ' + i);
  let last = 0;
  const heads = [...document.querySelectorAll('h1, h2, h3, h4, h5, h6')].filter(seen);
  if (heads.filter(h => h.tagName === 'H1').length !== 1) found.push('not one h1');
  for (const h of heads) {
    const n = +h.tagName[1];
    if (n > last + 1) found.push(`h${n} after h${last}: ${h.textContent}`);
    last = n;
  }
  if (!document.documentElement.lang) found.push('no language');
  if (!document.title.trim()) found.push('no title');
  if (document.querySelectorAll('main').length !== 1) found.push('not one main');
  for (const t of document.querySelectorAll('table')) if (!t.querySelector('th')) found.push('a table without heads');
  const parse = c => { const m = c.match(/[\d.]+/g).map(Number); return [m[0], m[1], m[2], m.length > 3 ? m[3] : 1]; };
  const linear = v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
  const light = c => { const f = c.slice(0, 3).map(v => linear(v / 255));
    return .2126 * f[0] + .7152 * f[1] + .0722 * f[2]; };
  const behind = e => {
    const layers = [];
    for (let n = e; n; n = n.parentElement) {
      const c = parse(getComputedStyle(n).backgroundColor);
      if (c[3] > 0) { layers.push(c); if (c[3] === 1) break; }
    }
    let base = [255, 255, 255];
    for (const l of layers.reverse()) base = base.map((v, k) => v * (1 - l[3]) + l[k] * l[3]);
    return base;
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const told = new Set();
  while (walker.nextNode()) {
    const e = walker.currentNode.parentElement;
    const outside = 'svg, script, style, [aria-hidden=true], [disabled], .disabled';
    if (!walker.currentNode.data.trim() || !e || told.has(e) || !seen(e) || e.closest(outside)) continue;
    told.add(e);
    const s = getComputedStyle(e), back = behind(e), c = parse(s.color);
    const front = back.map((v, k) => v * (1 - c[3]) + c[k] * c[3]);
    const a = light(front), b = light(back), ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    const big = parseFloat(s.fontSize) >= 24 || (parseFloat(s.fontSize) >= 18.6 && +s.fontWeight >= 700);
    if (ratio < (big ? 3 : 4.5)) found.push(`contrast ${ratio.toFixed(2)}: ${said(e)}`);
  }
  return found.slice(0, 30);
}
"""


def problems(page: Any) -> list[str]:
    """What is wrong with the page as it stands, by WCAG 2.1: 1.1.1, 1.3.1, 1.4.3 (contrast 4.5, large text 3), 2.4.2, 3.1.1,
    4.1.2."""
    found: list[str] = page.evaluate(_LOOK)
    return found
