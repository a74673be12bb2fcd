-- What answers took and cost by model. Time of the rows that the host answered; a negative cost counts as 0.
SELECT
    model_id,
    count(duration_s) FILTER (error IS NULL) AS n_timed,
    avg(duration_s) FILTER (error IS NULL) AS duration_s,
    count(cost_usd) AS n_costed,
    avg(greatest(cost_usd, 0)) FILTER (cost_usd IS NOT NULL) AS cost_usd,
    sum(greatest(cost_usd, 0)) FILTER (cost_usd IS NOT NULL) AS total_usd
FROM rows
GROUP BY model_id
ORDER BY model_id
