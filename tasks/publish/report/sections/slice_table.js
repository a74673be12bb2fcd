// Slices: the table's lines by column, metric and model.

function sliceFilter() {
  const table = document.getElementById('slice-table');
  if (!table) return;
  const names = ['column', 'metric', 'model'];
  const selects = names.map(name => document.getElementById('slice-' + name));
  const lines = [...table.tBodies[0].rows];
  const apply = () => {
    for (const line of lines)
      line.hidden = !names.every((name, i) => selects[i].value === '' || line.dataset[name] === selects[i].value);
    const shownLines = lines.filter(line => !line.hidden).length;
    document.getElementById('slice-count').textContent =
      shownLines === lines.length ? '' : `${shownLines} of ${plural(lines.length, 'line')}`;
  };
  selects.forEach(select => select.addEventListener('change', apply));
}

onData(sliceFilter);
