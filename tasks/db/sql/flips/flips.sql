INSERT INTO flips
SELECT
    metric_id,
    model_id,
    original_case_id,
    perturbed_case_id,
    original_row_id,
    perturbed_row_id,
    original_value,
    perturbed_value,
    threshold,
    CASE WHEN (original_value >= above) = upper_is_good THEN 'passed_to_failed' ELSE 'failed_to_passed' END,
    nullif(perturbation, '')
FROM found
JOIN pairs USING (pair_id)
JOIN metrics USING (metric_id)
JOIN targets USING (metric_id)
