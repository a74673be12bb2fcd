// The page itself: colours, navigation, and the start of its parts.

function colours() {
  const root = document.documentElement,
    button = document.getElementById('theme');
  const names = ['auto', 'light', 'dark'];
  let chosen = 'auto';
  try {
    chosen = localStorage.getItem('leadline-theme') || 'auto';
  } catch (error) {
    chosen = 'auto';
  }
  const apply = () => {
    if (chosen === 'auto') root.removeAttribute('data-theme');
    else root.dataset.theme = chosen;
    button.textContent = {auto: '◐ Auto', light: '☀ Light', dark: '☾ Dark'}[chosen];
  };
  button.addEventListener('click', () => {
    chosen = names[(names.indexOf(chosen) + 1) % names.length];
    try {
      localStorage.setItem('leadline-theme', chosen);
    } catch (error) {
      button.title = 'This browser does not keep the choice.';
    }
    apply();
  });
  if (!names.includes(chosen)) chosen = 'auto';
  apply();
}

function navigation() {
  const links = [...document.querySelectorAll('nav a')];
  const sections = links.map(link => document.querySelector(link.hash));
  const update = () => {
    const line = Math.min(innerHeight * 0.3, 180);
    let here = 0;
    sections.forEach((section, position) => {
      if (section.getBoundingClientRect().top <= line) here = position;
    });
    links.forEach((link, position) => {
      link.classList.toggle('here', position === here);
      if (position === here) {
        link.setAttribute('aria-current', 'true');
        const bar = link.parentNode;
        if (bar.scrollWidth > bar.clientWidth) bar.scrollLeft = link.offsetLeft - bar.offsetLeft - 40;
      } else link.removeAttribute('aria-current');
    });
  };
  addEventListener('scroll', update, {passive: true});
  update();
}

function allMetrics() {
  document.querySelectorAll('.show-all').forEach(box =>
    box.addEventListener('change', () => {
      document.body.classList.toggle('all-metrics', box.checked);
      document.querySelectorAll('.show-all').forEach(other => {
        other.checked = box.checked;
      });
    }),
  );
}

async function start() {
  colours();
  navigation();
  allMetrics();
  try {
    const data = await readData();
    const page = {};
    for (const f of starts) f(data, page);
    document.body.dataset.ready = 'true';
  } catch (error) {
    const note = document.getElementById('trouble');
    note.hidden = false;
    note.textContent =
      `The cases, problems and flips of this page cannot be shown by this browser (${error.message}). ` +
      'They are in report.md, problems.csv and scores.parquet beside it.';
  }
}

start();
