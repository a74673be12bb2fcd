// Making elements. Text only ever enters the page through text nodes, never as markup.

const starts = [];

/** Have f(data, page) called with the page's data; page.show and page.openCase lead to cases. */
const onData = f => starts.push(f);

/** Return an element: el('p', {class: 'x', onclick: f}, 'text', child). Null and false attributes are omitted. */
function el(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? '' : value);
  }
  for (const child of children.flat()) if (child !== null && child !== undefined && child !== '') node.append(child);
  return node;
}

// Characters that would act instead of showing: controls, direction overrides, line separators.
const CONTROL = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2028\u2029\u2066-\u2069]/;
const CONTROLS = new RegExp(CONTROL.source, 'g');

function pictured(character) {
  const code = character.charCodeAt(0);
  return code < 32 ? String.fromCharCode(0x2400 + code) : 'U+' + code.toString(16).toUpperCase().padStart(4, '0');
}

/** Return text on one line with such characters shown. */
function shown(text) {
  return CONTROL.test(text) ? text.replace(/\r?\n/g, ' ').replace(CONTROLS, pictured) : text;
}

/** Append text to a node, such characters as small labels. */
function appendText(node, text) {
  if (!CONTROL.test(text)) {
    node.append(text);
    return;
  }
  let from = 0;
  for (const match of text.matchAll(CONTROLS)) {
    if (match[0] === '\r' && text[match.index + 1] === '\n') continue;
    if (match.index > from) node.append(text.slice(from, match.index));
    node.append(el('span', {class: 'ctl', title: 'control character'}, pictured(match[0])));
    from = match.index + 1;
  }
  node.append(text.slice(from));
}

const FOLD = 1600;

/** Return a line that says which characters of a text are in the page: from where, and of how many. */
function partNote(text, [begin, length]) {
  const edges = [begin + 1, begin + [...text].length].map(n => n.toLocaleString('en'));
  return el('div', {class: 'faint small cut'}, `Characters ${edges.join(' to ')} of ${length.toLocaleString('en')}.`);
}

/**
 * Return text, folded if longer than fold; marks are [start, end, class, title] in UTF-16 units, sorted and apart.
 * Of a text that is not in the page as a whole, part has the place where it begins and the length of the whole.
 */
function textBlock(text, marks = [], fold = FOLD, part = null) {
  const block = el('div', {class: 'text', dir: 'auto'});
  const fill = limit => {
    block.replaceChildren();
    let from = 0;
    for (const [start, end, kind, title] of marks) {
      if (start >= limit) break;
      appendText(block, text.slice(from, start));
      const mark = el('mark', {class: kind, title});
      appendText(mark, text.slice(start, Math.min(end, limit)));
      block.append(mark);
      from = Math.min(end, limit);
    }
    appendText(block, text.slice(from, limit));
  };
  if (text.length <= fold * 1.25) {
    fill(text.length);
    return part ? el('div', {}, block, partNote(text, part)) : block;
  }
  // Do not cut a surrogate pair in two.
  const cut = /[\ud800-\udbff]/.test(text[fold - 1]) ? fold - 1 : fold;
  fill(cut);
  const hidden = marks.filter(mark => mark[1] > cut).length;
  const label = () =>
    `Show ${part ? '' : 'all '}${text.length.toLocaleString('en')} characters` + (hidden ? ` (${hidden} more highlighted)` : '');
  const more = el(
    'button',
    {
      class: 'link',
      type: 'button',
      'aria-expanded': 'false',
      onclick: () => {
        const open = more.getAttribute('aria-expanded') === 'true';
        fill(open ? cut : text.length);
        more.setAttribute('aria-expanded', String(!open));
        more.textContent = open ? label() : 'Show less';
      },
    },
    label(),
  );
  return el('div', {}, block, more, part ? partNote(text, part) : null);
}

function figure(value, share) {
  if (value === null || value === undefined) return '–';
  if (typeof value === 'string') return value === 'Infinity' ? '∞' : value === '-Infinity' ? '-∞' : value;
  if (share) return value === 1 ? 'yes' : value === 0 ? 'no' : (value * 100).toFixed(1) + ' %';
  const size = Math.abs(value);
  if (size && size < 0.0005) return size < 1e-6 ? '0.000' : value.toExponential(1);
  return size >= 1e5 ? value.toPrecision(3) : size >= 100 ? value.toFixed(1) : value.toFixed(3);
}

const plural = (count, word) => `${count.toLocaleString('en')} ${word}${count === 1 ? '' : 's'}`;

/** Fill a <select> with [value, label] pairs after its first option. */
function options(select, pairs) {
  for (const [value, label] of pairs) select.append(el('option', {value}, shown(label)));
}

/** Show one page of a list at a time, so that the page stays small whatever the list's length. */
class Pages {
  constructor(list, pager, size, make) {
    Object.assign(this, {list, pager, size, make, items: [], page: 0});
  }
  show(items, page = 0) {
    this.items = items;
    const last = Math.max(0, Math.ceil(items.length / this.size) - 1);
    this.page = Math.min(Math.max(0, page), last);
    const from = this.page * this.size;
    this.list.replaceChildren(...items.slice(from, from + this.size).map(item => this.make(item)));
    const turn = step => () => {
      this.show(this.items, this.page + step);
      this.list.scrollIntoView({block: 'start'});
    };
    this.pager.replaceChildren(
      ...(last === 0
        ? []
        : [
            el('button', {class: 'btn', type: 'button', disabled: this.page === 0, onclick: turn(-1)}, '← Previous'),
            el(
              'span',
              {class: 'muted num'},
              [from + 1, 'to', Math.min(from + this.size, items.length), 'of', items.length]
                .map(part => part.toLocaleString('en'))
                .join(' '),
            ),
            el('button', {class: 'btn', type: 'button', disabled: this.page === last, onclick: turn(1)}, 'Next →'),
          ]),
    );
  }
}

/** Return a labelled piece of text. */
const field = (label, ...content) => el('div', {class: 'field'}, el('div', {class: 'label'}, label), ...content);
