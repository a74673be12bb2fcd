// The data of the page: columns of rows and scores, compressed inside the document.

/** Return the page's data. */
async function readData() {
  const holder = document.getElementById('data');
  const raw = atob(holder.textContent.trim());
  holder.remove();
  const bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
  return index(await new Response(stream).json());
}

/** Add what filters need: the rows of each case and what became of each row. */
function index(data) {
  const {cases, rows, metrics, scores} = data;
  cases.forEach(item => { item.rows = []; });
  rows.case.forEach((position, row) => cases[position].rows.push(row));
  data.caseOf = new Map(cases.map((item, position) => [item.id, position]));
  data.rowOf = new Map(rows.id.map((id, row) => [id, row]));
  data.evaluators.forEach(evaluator => { evaluator.metrics = []; });
  metrics.forEach((metric, position) => { data.evaluators[metric.e].metrics.push(position); });
  data.deciding = data.evaluators.map(evaluator => {
    const primary = evaluator.metrics.filter(position => metrics[position].primary);
    return primary.length ? primary : evaluator.metrics.slice(0, 1);
  });
  /** How many deciding metrics a row fails, by one evaluator or by all (-1). */
  data.failures = (row, evaluator) => (evaluator < 0 ? data.deciding.flat() : data.deciding[evaluator])
    .filter(metric => data.passes(metric, scores[metric][row]) === false).length;
  data.flippedRows = new Set(data.flipped);
  data.states = new Map();
  data.passes = (metric, value) => {
    const {threshold, hib} = metrics[metric];
    if (threshold === null || value === null || value === undefined) return null;
    return hib ? Number(value) >= Number(threshold) : Number(value) <= Number(threshold);
  };
  /** What became of a row by one evaluator (or by all, -1): 'fail', 'lost', 'pass' or 'none'. */
  data.state = (row, evaluator) => {
    const key = row * 1000 + evaluator + 1;
    let state = data.states.get(key);
    if (state) return state;
    const chosen = evaluator < 0 ? data.deciding.flat() : data.deciding[evaluator];
    const lost = data.unscored[row] || {};
    state = 'none';
    for (const metric of chosen) {
      const passes = data.passes(metric, scores[metric][row]);
      if (passes === false) { state = 'fail'; break; }
      if (metrics[metric].e in lost && (evaluator < 0 || evaluator === metrics[metric].e)) state = 'lost';
      else if (passes && state === 'none') state = 'pass';
    }
    data.states.set(key, state);
    return state;
  };
  return data;
}

/** Turn spans in code points into marks in UTF-16 units that do not overlap; of several the worst value colours. */
function marksOf(text, spans, metric) {
  if (!spans.length) return [];
  let at = position => Math.min(position, text.length);
  if (/[\ud800-\udfff]/.test(text)) {
    const starts = [];
    for (let i = 0; i < text.length; i += text.codePointAt(i) > 0xffff ? 2 : 1) starts.push(i);
    at = position => position < starts.length ? starts[position] : text.length;
  }
  const edges = [];
  spans.forEach((span, number) => {
    const start = at(Math.max(0, span.start)), end = at(Math.max(0, span.end));
    if (end > start) edges.push([start, 1, number], [end, 0, number]);
  });
  edges.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  const open = new Set(), marks = [];
  let from = 0;
  for (const [position, opens, number] of edges) {
    if (position > from && open.size) {
      const inside = [...open].map(n => spans[n]);
      const results = inside.map(span => metric === null ? null : passesSpan(span, metric));
      const kind = results.includes(false) ? 'fail' : results.includes(true) ? 'pass' : '';
      const title = inside.slice(0, 5).map(span => [
        span.value === undefined || span.value === null ? '' : figure(span.value), shown(span.note || '')].filter(Boolean).join(' · ')).filter(Boolean).join('\n');
      marks.push([from, position, kind, title || 'evidence']);
    }
    from = position;
    if (opens) open.add(number); else open.delete(number);
  }
  return marks;
}

function passesSpan(span, metric) {
  if (span.value === undefined || span.value === null || metric.threshold === null) return null;
  return metric.hib ? Number(span.value) >= Number(metric.threshold) : Number(span.value) <= Number(metric.threshold);
}

/** Return [kind, text] pieces of b against a, word by word; null when they are too long or too different in size. */
function changedWords(a, b) {
  const left = a.split(/(\s+)/), right = b.split(/(\s+)/);
  if (left.length * right.length > 400000) return null;
  const table = Array.from({length: left.length + 1}, () => new Uint16Array(right.length + 1));
  for (let i = left.length - 1; i >= 0; i--) for (let j = right.length - 1; j >= 0; j--)
    table[i][j] = left[i] === right[j] ? table[i + 1][j + 1] + 1 : Math.max(table[i + 1][j], table[i][j + 1]);
  const pieces = [];
  const push = (kind, text) => { const last = pieces[pieces.length - 1]; if (last && last[0] === kind) last[1] += text; else pieces.push([kind, text]); };
  let i = 0, j = 0;
  while (i < left.length && j < right.length) {
    if (left[i] === right[j]) { push('same', left[i++]); j++; }
    else if (table[i + 1][j] >= table[i][j + 1]) push('gone', left[i++]);
    else push('new', right[j++]);
  }
  while (i < left.length) push('gone', left[i++]);
  while (j < right.length) push('new', right[j++]);
  return pieces;
}
