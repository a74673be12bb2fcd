-- What `leadline show` prints of one run.

-- statement: board
SELECT
    evaluators.evaluator, metrics.metric, metrics.name AS metric_name, metrics.is_primary, models.model_key AS model,
    aggregates.value, aggregates.ci_low, aggregates.ci_high, aggregates.ci_method,
    rules.role, aggregates.threshold, aggregates.pass_share, aggregates.verdict,
    aggregates.n_rows, aggregates.n_scored, aggregates.n_unscored, aggregates.n_not_applicable, aggregates.reasons
FROM aggregates
JOIN metrics USING (metric_id)
JOIN evaluators USING (evaluator_id)
JOIN models USING (model_id)
LEFT JOIN rules USING (metric_id)
ORDER BY
    evaluators.evaluator_id, metrics.is_primary DESC, metrics.metric_id,
    CASE WHEN metrics.higher_is_better THEN -aggregates.value ELSE aggregates.value END NULLS LAST,
    models.model_id;

-- statement: corrections
SELECT
    evaluators.evaluator, metrics.metric, metrics.is_primary, models.model_key AS model,
    corrections.*
FROM corrections
JOIN metrics USING (metric_id)
JOIN evaluators USING (evaluator_id)
JOIN models USING (model_id)
ORDER BY evaluators.evaluator_id, metrics.is_primary DESC, metrics.metric_id, models.model_id;

-- statement: certificates
SELECT evaluators.evaluator, metrics.metric, metrics.is_primary, certificates.*
FROM certificates
JOIN metrics USING (metric_id)
JOIN evaluators USING (evaluator_id)
ORDER BY evaluators.evaluator_id, metrics.is_primary DESC, metrics.metric_id;

-- statement: trial_spread
SELECT
    evaluators.evaluator, metrics.metric, metrics.is_primary, models.model_key AS model,
    trial_spread.* EXCLUDE (metric_id, model_id)
FROM trial_spread
JOIN metrics USING (metric_id)
JOIN evaluators USING (evaluator_id)
JOIN models USING (model_id)
ORDER BY evaluators.evaluator_id, metrics.is_primary DESC, metrics.metric_id, models.model_id;

-- statement: flip_rates
SELECT evaluators.evaluator, metrics.metric, metrics.is_primary, models.model_key AS model, flip_rates.*
FROM flip_rates
JOIN metrics USING (metric_id)
JOIN evaluators USING (evaluator_id)
JOIN models USING (model_id)
ORDER BY evaluators.evaluator_id, metrics.is_primary DESC, metrics.metric_id, models.model_id, perturbation;

-- statement: flip_causes
SELECT evaluators.evaluator, metrics.metric, models.model_key AS model, flip_causes.*
FROM flip_causes
JOIN metrics USING (metric_id)
JOIN evaluators USING (evaluator_id)
JOIN models USING (model_id)
ORDER BY evaluators.evaluator_id, metrics.metric_id, models.model_id, perturbation;

-- statement: problems
SELECT
    problems.severity, problems.type, problems.instrument, evaluators.evaluator, metrics.metric,
    models.model_key AS model, problems.description, problems.actions, problems.attrs::JSON AS attrs,
    len(problems.row_ids) AS n_rows
FROM problems
LEFT JOIN evaluators USING (evaluator_id)
LEFT JOIN metrics USING (metric_id)
LEFT JOIN models USING (model_id)
ORDER BY problems.problem_id;

-- statement: insights
SELECT
    insights.type, evaluators.evaluator, metrics.metric, models.model_key AS model,
    insights.description, insights.actions, insights.attrs::JSON AS attrs
FROM insights
LEFT JOIN evaluators USING (evaluator_id)
LEFT JOIN metrics USING (metric_id)
LEFT JOIN models USING (model_id)
ORDER BY insights.insight_id;

-- statement: case
SELECT * FROM cases WHERE case_key = ?;

-- statement: near
SELECT case_key FROM cases ORDER BY jaro_winkler_similarity(case_key, ?) DESC, case_id LIMIT 3;

-- statement: answers
SELECT
    rows.row_id, models.model_key AS model, rows.* EXCLUDE (row_id, case_id, model_id),
    talks.messages, talks.history
FROM rows
JOIN models USING (model_id)
LEFT JOIN (SELECT row_id, messages, history FROM turns WHERE unit <> 'turn') AS talks USING (row_id)
WHERE rows.case_id = ?
ORDER BY models.model_id;

-- statement: scores
SELECT
    scores.row_id, evaluators.evaluator, metrics.metric, scores.trial, scores.status::VARCHAR AS status, scores.reason,
    scores.value, metrics.threshold,
    CASE
        WHEN scores.value IS NULL OR metrics.threshold IS NULL THEN NULL
        WHEN metrics.higher_is_better THEN scores.value >= metrics.threshold
        ELSE scores.value <= metrics.threshold
    END AS passes
FROM scores
JOIN metrics USING (metric_id)
JOIN evaluators USING (evaluator_id)
WHERE scores.row_id IN (SELECT row_id FROM rows WHERE case_id = ?)
ORDER BY scores.row_id, evaluators.evaluator_id, metrics.is_primary DESC, metrics.metric_id, scores.trial;

-- statement: evidence
SELECT evidence.row_id, evaluators.evaluator, evidence.trial, evidence.evidence, evidence.flags, evidence.error
FROM evidence JOIN evaluators USING (evaluator_id)
WHERE evidence.row_id IN (SELECT row_id FROM rows WHERE case_id = ?)
ORDER BY evidence.row_id, evidence.evaluator_id, evidence.trial;
