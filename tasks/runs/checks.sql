-- The checks of single rows, as a test suite has them; see tasks/runs/show.py.

-- statement: rows
-- One line per row and metric with a threshold that the policy holds for more than information, of the rows that have
-- its inputs. The tables of targets are made by show_row_scores.
SELECT
    case_key AS "case",
    model_key AS model,
    cases.question,
    evaluator,
    metric,
    replace(evaluators.name, ' Evaluator', '') || CASE WHEN is_primary THEN '' ELSE ': ' || metrics.name END AS name,
    role,
    is_share AS share,
    higher_is_better,
    threshold,
    row_scores.status::VARCHAR AS status,
    reason,
    value,
    row_id IN (
        SELECT row_id FROM row_changes
        WHERE broken AND same_answer AND row_changes.metric_id = row_scores.metric_id
    ) AS rejudged
FROM row_scores
JOIN metrics USING (metric_id)
JOIN evaluators USING (evaluator_id)
JOIN rules USING (metric_id)
JOIN rows USING (row_id)
JOIN cases USING (case_id)
JOIN models USING (model_id)
WHERE role <> 'information' AND proof <> 'likeness' AND NOT dataset_level AND NOT pooled AND threshold IS NOT NULL
    AND row_scores.status <> 'not_applicable'
ORDER BY row_id, role, evaluator_id, is_primary DESC, metric_id;

-- statement: answers
-- The answers of a run, with or without checks: a case whose answer nothing applies to is one of them.
SELECT case_key AS "case", model_key AS model
FROM rows
JOIN cases USING (case_id)
JOIN models USING (model_id)
ORDER BY row_id
