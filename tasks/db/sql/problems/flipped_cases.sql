-- Each perturbed case that flipped for a model on some metric of an evaluator, the flips of one case in one line.
-- place counts them within an evaluator and model, those that fell first.
WITH flipped AS (
    SELECT
        evaluator_id,
        model_id,
        original_case_id,
        perturbed_case_id,
        original_row_id,
        perturbed_row_id,
        any_value(perturbation) AS perturbation,
        bool_or(direction = 'passed_to_failed') AS fell,
        list(
            {{'metric_id': metric_id, 'from': original_value, 'to': perturbed_value, 'direction': direction}}
            ORDER BY is_primary DESC, metric_id
        ) AS metrics
    FROM flips
    JOIN metrics USING (metric_id)
    GROUP BY ALL
),
placed AS (
    SELECT
        *,
        row_number() OVER (
            PARTITION BY evaluator_id, model_id ORDER BY fell DESC, perturbed_case_id, original_case_id
        ) AS place,
        count(*) OVER (PARTITION BY evaluator_id, model_id) AS n_flipped
    FROM flipped
)
SELECT placed.*, originals.question AS original_question, perturbed.question AS perturbed_question
FROM placed
JOIN cases AS originals ON originals.case_id = original_case_id
JOIN cases AS perturbed ON perturbed.case_id = perturbed_case_id
WHERE place <= {listed}
ORDER BY evaluator_id, model_id, place
