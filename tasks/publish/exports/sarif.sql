-- Failing rows for programs that show them beside the dataset's lines, as tasks/publish/exports/sarif.py reads them.

-- statement: failing_rows
-- Rows that miss the threshold of a metric that the policy says must or should hold: newly broken ones first, then by
-- role and weight. Needs the tables of aggregate/targets and the view run_rows.
SELECT
    evaluator || '.' || metric AS rule,
    role,
    metrics.name AS metric_name,
    case_key AS "case",
    model_key AS model,
    left(coalesce(cases.question, ''), {most}) AS question,
    value,
    metrics.threshold,
    higher_is_better,
    is_share AS share,
    coalesce(row_changes.broken AND NOT same_answer, false) AS broken,
    (
        SELECT min_by(json_extract_string(evidence, '$.message'), trial)
        FROM evidence
        WHERE evidence.evaluator_id = metrics.evaluator_id AND evidence.row_id = row_scores.row_id
    ) AS message
FROM row_scores
JOIN targets USING (metric_id)
JOIN metrics USING (metric_id)
JOIN evaluators USING (evaluator_id)
JOIN rules USING (metric_id)
JOIN run_rows ON run_rows.row_id = row_scores.row_id
JOIN cases USING (case_id)
JOIN models USING (model_id)
LEFT JOIN row_changes ON row_changes.row_id = row_scores.row_id AND row_changes.metric_id = row_scores.metric_id
WHERE role <> 'information' AND proof <> 'likeness' AND compared AND (value >= above) <> upper_is_good
ORDER BY broken DESC, role <> 'must', weight DESC, row_scores.row_id, metrics.metric_id
LIMIT {lines}
