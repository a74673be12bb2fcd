-- What keeps the gate from deciding.

-- statement: crashed
-- Evaluators that could not run, of a question or of all.
SELECT name
FROM evaluators
WHERE
    error IS NOT NULL
    AND (
        $question IS NULL
        OR evaluator_id IN (
            SELECT evaluator_id
            FROM metrics JOIN rules USING (metric_id)
            WHERE question = $question AND (role <> 'information' OR named)
        )
    )
ORDER BY evaluator_id

-- statement: named_without_scores
-- Evaluators that were asked for by id and scored no row of any model.
SELECT evaluator
FROM evaluators
JOIN metrics USING (evaluator_id)
JOIN rules USING (metric_id)
LEFT JOIN aggregates USING (metric_id)
WHERE named AND ($question IS NULL OR question = $question)
GROUP BY evaluator_id, evaluator
HAVING coalesce(sum(n_scored), 0) = 0
ORDER BY evaluator_id

-- statement: poor_coverage
-- Evaluators that scored too small a share of a model's applicable rows, the worst first.
SELECT
    evaluators.name,
    model_key,
    min(n_scored / (n_scored + n_unscored)) AS coverage,
    arg_min(coalesce($least::DOUBLE, min_coverage), n_scored / (n_scored + n_unscored)) AS least
FROM aggregates
JOIN metrics USING (metric_id)
JOIN rules USING (metric_id)
JOIN evaluators USING (evaluator_id)
JOIN models USING (model_id)
WHERE
    n_scored + n_unscored > 0
    AND n_scored / (n_scored + n_unscored) < coalesce($least::DOUBLE, min_coverage)
    AND ($question IS NULL OR (question = $question AND (role <> 'information' OR named)))
GROUP BY evaluator_id, evaluators.name, model_id, model_key
ORDER BY coverage, evaluator_id, model_id

-- statement: unsure
-- Metrics that can block and whose verdict is open: those whose value misses the threshold, or which too few answers
-- satisfy, or, where certainty is asked for, all of them. Must metrics come first.
SELECT
    metrics.name, model_key, value, verdict, ci_method, aggregates.threshold, n_scored, n_pass, role, surely, pass_share,
    min_pass_share, is_share
FROM aggregates
JOIN metrics USING (metric_id)
JOIN rules USING (metric_id)
JOIN models USING (model_id)
WHERE
    role <> 'information'
    AND use <> 'corrected'
    AND n_scored > 0
    AND aggregates.threshold IS NOT NULL
    AND ($question IS NULL OR rules.question = $question)
    AND NOT (proof IN ('exact', 'estimate') AND rules.question IN ('right', 'grounded') AND NOT dataset_level AND role <> 'must')
    AND (
        ($certain AND (verdict = 'inconclusive' OR n_scored < min_rows))
        OR (proof = 'mean' AND verdict = 'inconclusive')
        OR (role = 'should' AND NOT is_share AND coalesce(pass_share < min_pass_share, false))
        OR CASE
            WHEN n_pass IS NOT NULL AND role = 'must' THEN verdict = 'fail'
            WHEN higher_is_better THEN value < aggregates.threshold
            ELSE value > aggregates.threshold
        END
    )
ORDER BY role <> 'must', metric_id, model_id

-- statement: corrected
-- Metrics that corrected values decide, with what there is of their labels.
SELECT
    metrics.name, evaluator, metric, model_key, coalesce(certificates.state, 'none') AS state,
    coalesce(to_judge, 0) AS to_judge, corrections.value, corrections.ci_low, corrections.ci_high, wanted, corrections.verdict, method,
    corrections.n_labels, corrections.judged, certificates.n_labels AS n_certified, certificates.more_labels
FROM aggregates
JOIN metrics USING (metric_id)
JOIN evaluators USING (evaluator_id)
JOIN rules USING (metric_id)
JOIN models USING (model_id)
LEFT JOIN certificates USING (metric_id)
LEFT JOIN corrections USING (metric_id, model_id)
WHERE
    use = 'corrected' AND role <> 'information' AND n_scored > 0
    AND ($question IS NULL OR rules.question = $question)
ORDER BY role <> 'must', metric_id, model_id

-- statement: open_slices
-- Slices that the policy names whose metric may miss its limit by chance, and columns that the dataset lacks.
SELECT description
FROM problems
WHERE
    ($question IS NULL OR coalesce(nullif(question, ''), 'right') = $question)
    AND kind = 'slice' AND (instrument OR (severity = 'medium' AND attrs ->> '$.demanded' = 'true'))
ORDER BY problem_id
