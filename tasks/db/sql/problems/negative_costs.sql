SELECT model_id, count(*) AS n, min(cost_usd) AS lowest, min(row_id, {most}) AS row_ids
FROM rows
WHERE cost_usd < 0
GROUP BY model_id
ORDER BY model_id
