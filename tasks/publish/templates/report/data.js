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
  cases.forEach(item => {
    item.rows = [];
  });
  rows.case.forEach((position, row) => cases[position].rows.push(row));
  data.caseOf = new Map(cases.map((item, position) => [item.id, position]));
  data.rowOf = new Map(rows.id.map((id, row) => [id, row]));
  data.evaluators.forEach(evaluator => {
    evaluator.metrics = [];
  });
  metrics.forEach((metric, position) => {
    data.evaluators[metric.e].metrics.push(position);
  });
  data.deciding = data.evaluators.map(evaluator => {
    const primary = evaluator.metrics.filter(position => metrics[position].primary);
    return primary.length ? primary : evaluator.metrics.slice(0, 1);
  });
  // Over all evaluators only what must or should hold counts, unless nothing else was measured.
  const primary = data.deciding.flat();
  const required = primary.filter(metric => metrics[metric].role !== 'information');
  const counted = evaluator => (evaluator >= 0 ? data.deciding[evaluator] : required.length ? required : primary);
  /** How many deciding metrics a row fails, by one evaluator or by all (-1). */
  data.failures = (row, evaluator) =>
    counted(evaluator).filter(metric => data.passes(metric, scores[metric][row]) === false).length;
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
    const chosen = counted(evaluator);
    const lost = data.unscored[row] || {};
    state = 'none';
    for (const metric of chosen) {
      const passes = data.passes(metric, scores[metric][row]);
      if (passes === false) {
        state = 'fail';
        break;
      }
      if (metrics[metric].e in lost && (evaluator < 0 || evaluator === metrics[metric].e)) state = 'lost';
      else if (passes && state === 'none') state = 'pass';
    }
    data.states.set(key, state);
    return state;
  };
  return data;
}
