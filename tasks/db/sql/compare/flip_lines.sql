INSERT INTO all_flips BY NAME
SELECT
    $1 AS evaluator,
    $2 AS metric,
    $3 AS baseline_model,
    $4 AS candidate_model,
    case_key AS "case",
    $5 AS direction,
    baseline,
    candidate,
    $6::DOUBLE AS threshold
FROM flipped
JOIN both_cases USING (case_no)
