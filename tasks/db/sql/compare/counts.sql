-- What became of the cases, and by how much the known values of unscored pairs fall short of the range's ends.
SELECT
    state,
    baseline_reason,
    candidate_reason,
    count(*) AS n,
    count_if(same_answer) AS same_answers,
    sum(coalesce(candidate, $worst) - coalesce(baseline, $best)) AS if_worst,
    sum(coalesce(candidate, $best) - coalesce(baseline, $worst)) AS if_best
FROM value_pairs
GROUP BY state, baseline_reason, candidate_reason
ORDER BY ALL
