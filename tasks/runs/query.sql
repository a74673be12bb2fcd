-- Views over all runs of a store, see tasks/runs/query.py.

-- statement: views
-- What `leadline store sql` shows of all runs together, on top of the schema `stored`: the tables of run_tables.py and dataset.sql
-- with a column `run`. Numbers that mean something within one run only stand beside the names that they stand for.

CREATE VIEW models AS SELECT * FROM stored.models;

CREATE VIEW cases AS SELECT * FROM stored.cases;

CREATE VIEW rows AS
SELECT r.run, c.case_key, m.model_key, r.* EXCLUDE (run)
FROM stored.rows AS r
JOIN stored.cases AS c USING (run, case_id)
JOIN stored.models AS m USING (run, model_id);

CREATE VIEW relationships AS
SELECT r.run, c.case_key, o.case_key AS original_case_key, r.* EXCLUDE (run)
FROM stored.relationships AS r
JOIN stored.cases AS c USING (run, case_id)
JOIN stored.cases AS o ON o.run = r.run AND o.case_id = r.original_case_id;

CREATE VIEW evaluators AS SELECT * FROM stored.evaluators;

CREATE VIEW metrics AS
SELECT m.run, e.evaluator, m.* EXCLUDE (run)
FROM stored.metrics AS m
JOIN stored.evaluators AS e USING (run, evaluator_id);

CREATE VIEW scores AS
SELECT
    s.run, n.evaluator, n.metric, r.case_key, r.model_key, s.trial, s.status, s.reason, s.value,
    s.metric_id, s.row_id
FROM stored.scores AS s
JOIN metrics AS n USING (run, metric_id)
JOIN (SELECT run, row_id, case_key, model_key FROM rows) AS r USING (run, row_id);

CREATE VIEW evidence AS
SELECT s.run, e.evaluator, r.case_key, r.model_key, s.* EXCLUDE (run)
FROM stored.evidence AS s
JOIN stored.evaluators AS e USING (run, evaluator_id)
JOIN (SELECT run, row_id, case_key, model_key FROM rows) AS r USING (run, row_id);

CREATE VIEW turn_scores AS
SELECT
    s.run, n.evaluator, n.metric, r.case_key, r.model_key, s.turn, s.trial, s.status, s.reason, s.value,
    s.metric_id, s.row_id, s.conversation_id
FROM stored.turn_scores AS s
JOIN metrics AS n USING (run, metric_id)
JOIN (SELECT run, row_id, case_key, model_key FROM rows) AS r ON r.run = s.run AND r.row_id = s.conversation_id;

CREATE VIEW turn_evidence AS
SELECT s.run, e.evaluator, r.case_key, r.model_key, s.* EXCLUDE (run)
FROM stored.turn_evidence AS s
JOIN stored.evaluators AS e USING (run, evaluator_id)
JOIN (SELECT run, row_id, case_key, model_key FROM rows) AS r ON r.run = s.run AND r.row_id = s.conversation_id;

CREATE VIEW turns AS
SELECT t.run, c.case_key, m.model_key, t.* EXCLUDE (run)
FROM stored.turns AS t
JOIN stored.cases AS c USING (run, case_id)
JOIN stored.models AS m USING (run, model_id);

CREATE VIEW aggregates AS
SELECT a.run, n.evaluator, n.metric, m.model_key, a.* EXCLUDE (run)
FROM stored.aggregates AS a
JOIN metrics AS n USING (run, metric_id)
JOIN stored.models AS m USING (run, model_id);

CREATE VIEW corrections AS
SELECT c.run, n.evaluator, n.metric, m.model_key, c.* EXCLUDE (run)
FROM stored.corrections AS c
JOIN metrics AS n USING (run, metric_id)
JOIN stored.models AS m USING (run, model_id);

CREATE VIEW certificates AS
SELECT c.run, n.evaluator, n.metric, c.* EXCLUDE (run)
FROM stored.certificates AS c
JOIN metrics AS n USING (run, metric_id);

CREATE VIEW trial_spread AS
SELECT t.run, n.evaluator, n.metric, m.model_key, t.* EXCLUDE (run)
FROM stored.trial_spread AS t
JOIN metrics AS n USING (run, metric_id)
JOIN stored.models AS m USING (run, model_id);

CREATE VIEW stopping AS
SELECT t.run, n.evaluator, n.metric, m.model_key, t.* EXCLUDE (run)
FROM stored.stopping AS t
JOIN metrics AS n USING (run, metric_id)
JOIN stored.models AS m USING (run, model_id);

CREATE VIEW repeats AS
SELECT s.run, n.evaluator, n.metric, r.case_key, r.model_key, s.trial, s.value, s.metric_id, s.row_id
FROM stored.repeats AS s
JOIN metrics AS n USING (run, metric_id)
JOIN (SELECT run, row_id, case_key, model_key FROM rows) AS r USING (run, row_id);

CREATE VIEW slices AS
SELECT s.run, n.evaluator, n.metric, m.model_key, s.* EXCLUDE (run)
FROM stored.slices AS s
JOIN metrics AS n USING (run, metric_id)
LEFT JOIN stored.models AS m USING (run, model_id);

CREATE VIEW slice_rows AS
SELECT s.run, s.slice_column, s.slice_value, r.case_key, r.model_key, s.row_id
FROM stored.slice_rows AS s
JOIN (SELECT run, row_id, case_key, model_key FROM rows) AS r USING (run, row_id);

CREATE VIEW flips AS
SELECT
    f.run, n.evaluator, n.metric, m.model_key,
    o.case_key AS original_case_key, p.case_key AS perturbed_case_key, f.* EXCLUDE (run)
FROM stored.flips AS f
JOIN metrics AS n USING (run, metric_id)
JOIN stored.models AS m USING (run, model_id)
JOIN stored.cases AS o ON o.run = f.run AND o.case_id = f.original_case_id
JOIN stored.cases AS p ON p.run = f.run AND p.case_id = f.perturbed_case_id;

CREATE VIEW flip_rates AS
SELECT f.run, n.evaluator, n.metric, m.model_key, f.* EXCLUDE (run)
FROM stored.flip_rates AS f
JOIN metrics AS n USING (run, metric_id)
JOIN stored.models AS m USING (run, model_id);

CREATE VIEW flip_causes AS
SELECT f.run, n.evaluator, n.metric, m.model_key, f.* EXCLUDE (run)
FROM stored.flip_causes AS f
JOIN metrics AS n USING (run, metric_id)
JOIN stored.models AS m USING (run, model_id);

CREATE VIEW baseline AS SELECT * FROM stored.baseline;

CREATE VIEW model_changes AS
SELECT c.run, m.model_key, c.* EXCLUDE (run)
FROM stored.model_changes AS c
JOIN stored.models AS m USING (run, model_id);

CREATE VIEW metric_changes AS
SELECT c.run, n.evaluator, n.metric, m.model_key, c.* EXCLUDE (run)
FROM stored.metric_changes AS c
JOIN metrics AS n USING (run, metric_id)
JOIN stored.models AS m USING (run, model_id);

CREATE VIEW row_changes AS
SELECT c.run, n.evaluator, n.metric, r.case_key, r.model_key, c.* EXCLUDE (run)
FROM stored.row_changes AS c
JOIN metrics AS n USING (run, metric_id)
JOIN (SELECT run, row_id, case_key, model_key FROM rows) AS r USING (run, row_id);

CREATE VIEW problems AS
SELECT p.run, e.evaluator, n.metric, m.model_key, p.* EXCLUDE (run)
FROM stored.problems AS p
LEFT JOIN stored.evaluators AS e USING (run, evaluator_id)
LEFT JOIN stored.metrics AS n USING (run, metric_id)
LEFT JOIN stored.models AS m USING (run, model_id);

CREATE VIEW insights AS
SELECT i.run, e.evaluator, n.metric, m.model_key, i.* EXCLUDE (run)
FROM stored.insights AS i
LEFT JOIN stored.evaluators AS e USING (run, evaluator_id)
LEFT JOIN stored.metrics AS n USING (run, metric_id)
LEFT JOIN stored.models AS m USING (run, model_id);

-- statement: history
-- The means of a metric in all runs, the oldest first: by the metric's key, its evaluator's id, or both.
SELECT
    r.run, r.name, r.started, r.dataset_name, a.evaluator, a.metric, a.model_key AS model, a.value, a.ci_low, a.ci_high,
    a.threshold, a.n_scored, a.n_unscored, a.verdict, r.gate
FROM aggregates AS a
JOIN runs AS r USING (run)
JOIN metrics AS m ON m.run = a.run AND m.metric_id = a.metric_id
WHERE a.metric = $metric OR a.evaluator || '.' || a.metric = $metric OR (a.evaluator = $metric AND m.is_primary)
ORDER BY r.started, r.run, a.evaluator, a.metric, model;
