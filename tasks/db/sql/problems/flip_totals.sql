-- Evaluators and models with more flipped cases than are told one by one.
SELECT
    evaluator_id,
    model_id,
    count(DISTINCT perturbed_case_id) AS n_cases,
    count(DISTINCT perturbed_case_id) FILTER (direction = 'passed_to_failed') AS n_fell,
    count(DISTINCT perturbed_case_id) FILTER (direction = 'failed_to_passed') AS n_rose,
    min(perturbed_row_id, {most}) AS row_ids
FROM (SELECT DISTINCT metrics.evaluator_id, flips.* EXCLUDE (metric_id) FROM flips JOIN metrics USING (metric_id))
GROUP BY evaluator_id, model_id
HAVING count(DISTINCT (original_case_id, perturbed_case_id)) > {listed}
ORDER BY evaluator_id, model_id
