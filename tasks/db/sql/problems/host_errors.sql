SELECT
    model_id,
    count(*) AS n,
    (SELECT count(*) FROM rows AS every WHERE every.model_id = rows.model_id) AS n_rows,
    mode(error) AS message,
    min(row_id, {most}) AS row_ids
FROM rows
WHERE error IS NOT NULL
GROUP BY model_id
ORDER BY model_id
