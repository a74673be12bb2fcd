-- The tables of a completed run over the dataset of sample_dataset.sql, evaluators and metrics being there already.

INSERT INTO scores
WITH drawn AS (
    SELECT
        metric_id, low, row_id, model_id, case_id,
        hash(case_id, metric_id, model_id) % 10007 / 10007.0 AS u,
        -- The metrics 3 and 4, and 5 and 6, are passes and failures of one check.
        (hash(case_id, model_id, CASE WHEN metric_id IN (4, 6) THEN metric_id - 1 ELSE metric_id END) % 10
            < 8 + model_id % 2)::INTEGER AS passes,
        CASE
            WHEN error IS NOT NULL THEN 'host_error'
            WHEN metric_id = 8 AND case_id % 6 = 1 THEN 'judge_unparseable'
        END AS lost,
        CASE WHEN metric_id IN (5, 6) AND condition IS NULL THEN 'missing: condition' END AS lacks
    FROM metrics, rows JOIN cases USING (case_id)
)
SELECT
    metric_id, row_id, 0,
    CASE WHEN lost IS NOT NULL THEN 'unscored' WHEN lacks IS NOT NULL THEN 'not_applicable' ELSE 'scored' END,
    coalesce(lost, lacks),
    CASE
        WHEN coalesce(lost, lacks) IS NOT NULL THEN NULL
        WHEN metric_id IN (3, 5) THEN passes
        WHEN metric_id IN (4, 6) THEN 1 - passes
        WHEN metric_id = 7 THEN CASE WHEN case_id = 2 THEN 'inf'::DOUBLE ELSE 1 + 30 * u END
        WHEN metric_id = 1 THEN 0.3 + 0.4 * u
        WHEN metric_id = 2 THEN 0.1 + 0.35 * u
        ELSE least(1, 0.45 + 0.1 * model_id + 0.6 * sqrt(u))
    END
FROM drawn;

INSERT INTO evidence
SELECT
    0, row_id, 0,
    to_json({
        'message': 'Least grounded: “Nobody has said otherwise since”.',
        'spans': [
            {'source': 'actual_answer', 'start': 0, 'end': 21, 'index': 0, 'value': 0.91, 'note': 'sentence 1'},
            {'source': 'actual_answer', 'start': 22, 'end': 60, 'index': 0, 'value': 0.41, 'note': 'sentence 2'},
            {'source': 'retrieved_context', 'start': 0, 'end': 20, 'index': 1, 'value': 0.2, 'note': 'nearest'}
        ],
        'data': {'sentences': 3}
    })::VARCHAR,
    NULL, NULL, NULL
FROM rows
WHERE actual_answer IS NOT NULL
UNION ALL
SELECT
    2, row_id, 0,
    '{"message":"A card number was found <here>.","spans":[{"source":"actual_answer","start":10,"end":16,"note":"card"}]}',
    '[{"type":"privacy","severity":"high","message":"card"}]', NULL, NULL
FROM scores WHERE metric_id = 3 AND value = 0
UNION ALL
SELECT
    5, row_id, 0,
    '{"data":{"rationale":"The judge says: correct, but </script> late.","reply":"{}"}}', NULL, NULL, NULL
FROM scores WHERE metric_id = 8 AND status = 'scored' AND row_id % 4 = 0
UNION ALL
SELECT 5, row_id, 0, NULL, NULL, NULL, 'The judge replied: perhaps'
FROM scores WHERE reason = 'judge_unparseable';

INSERT INTO aggregates
WITH counted AS (
    SELECT
        metric_id, model_id, count(*) AS n, count(value) AS k,
        count(*) FILTER (status = 'unscored') AS lost,
        count(*) FILTER (status = 'not_applicable') AS lacking,
        avg(value) AS mean, stddev(value) FILTER (isfinite(value)) AS std, min(value) AS least, max(value) AS most,
        count(*) FILTER (CASE WHEN higher_is_better THEN value >= threshold ELSE value <= threshold END) AS passed
    FROM scores JOIN metrics USING (metric_id) JOIN rows USING (row_id)
    GROUP BY metric_id, model_id
),
measured AS (SELECT *, 1.96 * std / sqrt(k) AS half FROM counted JOIN metrics USING (metric_id))
SELECT
    metric_id, model_id, n, k, lost, lacking,
    CASE WHEN lost > 0 THEN '{"judge_unparseable": ' || lost || '}' ELSE '{}' END,
    mean, greatest(low, mean - half), least(high, mean + half), 't', std, least, most,
    mean * k / (k + lost), (mean * k + lost) / (k + lost),
    threshold, passed, passed / k, greatest(0, passed / k - 0.1), least(1, passed / k + 0.1),
    CASE
        WHEN abs(mean - threshold) < half THEN 'inconclusive'
        WHEN (mean >= threshold) = higher_is_better THEN 'pass' ELSE 'fail'
    END
FROM measured;

INSERT INTO flips
SELECT
    before.metric_id, copies.model_id, originals.case_id, copies.case_id, originals.row_id, copies.row_id,
    before.value, after.value, threshold,
    CASE WHEN (before.value >= threshold) = higher_is_better THEN 'passed_to_failed' ELSE 'failed_to_passed' END,
    perturbation, NULL
FROM relationships
JOIN rows copies ON copies.case_id = relationships.case_id
JOIN rows originals ON originals.case_id = original_case_id AND originals.model_id = copies.model_id
JOIN scores before ON before.row_id = originals.row_id
JOIN scores after ON after.row_id = copies.row_id AND after.metric_id = before.metric_id
JOIN metrics ON metrics.metric_id = before.metric_id
WHERE before.value IS NOT NULL AND after.value IS NOT NULL
  AND (before.value >= threshold) <> (after.value >= threshold);

INSERT INTO flip_rates
SELECT
    metric_id, model_id, how, n, worse, better, (worse + better) / n,
    greatest(0, (worse + better) / n - 0.2), least(1, (worse + better) / n + 0.2),
    0, NULL, NULL, NULL, NULL, NULL, 0, 0, NULL, NULL, NULL
FROM (
    SELECT
        metric_id, model_id, how, 8 + count(*) AS n,
        count(*) FILTER (direction = 'passed_to_failed') AS worse,
        count(*) FILTER (direction = 'failed_to_passed') AS better
    FROM (SELECT *, unnest(['', perturbation]) AS how FROM flips)
    GROUP BY metric_id, model_id, how
);

INSERT INTO problems
SELECT
    row_number() OVER () - 1, severity, type, '', kind, fault, fault <> 'model', 0.5, e, m, model, said, actions, '{"n": 3}',
    coalesce(row_ids, [])
FROM (
    SELECT
        'high' AS severity, 'accuracy' AS type, 'missed_threshold' AS kind, 'model' AS fault, evaluator_id AS e, metric_id AS m, model_id AS model,
        'Evaluated model failed to satisfy the threshold ' || aggregates.threshold || ' for ''' || name || '''.' AS said,
        'Look at the failed cases and <b>improve</b> the prompt.' AS actions,
        (
            SELECT list(row_id)[:1000] FROM scores JOIN rows USING (row_id)
            WHERE scores.metric_id = aggregates.metric_id AND rows.model_id = aggregates.model_id AND status = 'scored'
        ) AS row_ids
    FROM aggregates JOIN metrics USING (metric_id)
    WHERE verdict = 'fail' AND is_primary
    UNION ALL
    SELECT
        'medium', 'robustness', 'flips', 'model', evaluator_id, metric_id, model_id,
        'A perturbed question changed the verdict of ' || name || '.', 'Make the system less sensitive.',
        [original_row_id, perturbed_row_id]
    FROM flips JOIN metrics USING (metric_id)
    WHERE is_primary AND perturbed_case_id < 200
    UNION ALL
    SELECT
        'low', 'evaluation', 'unscored', 'instrument', 5, 8, NULL, 'The judge''s reply could not be read for some answers.',
        'Use another judge.', (SELECT list(row_id)[:1000] FROM scores WHERE reason = 'judge_unparseable')
);

INSERT INTO insights
SELECT row_number() OVER () - 1, type, e, m, model, said, actions, '{}', row_ids
FROM (
    SELECT
        any_value('accuracy') AS type, evaluator_id AS e, metric_id AS m, arg_max(model_id, value) AS model,
        'Model ' || arg_max(model_id, value) || ' is the best by ' || name || '.' AS said,
        any_value('Prefer it.') AS actions, any_value([]::UINTEGER[]) AS row_ids
    FROM aggregates JOIN metrics USING (metric_id)
    WHERE is_primary
    GROUP BY evaluator_id, metric_id, name
    UNION ALL
    SELECT 'weak-point', 0, 0, NULL, 'The hardest case is case-0003.', 'Read it.', [9]
);
