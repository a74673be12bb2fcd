-- By model, how many rows lack one input; {field} is a column of digests. Rows that the host failed on are left out.
SELECT
    model_id,
    count(*) AS n_rows,
    count_if(absent) AS n,
    count(DISTINCT case_id) FILTER (absent) AS n_cases,
    coalesce(min(row_id, {most}) FILTER (absent), []) AS row_ids
FROM (
    SELECT row_id, model_id, case_id, digests.{field} IS NULL AS absent
    FROM rows
    JOIN digests USING (row_id)
    WHERE error IS NULL
)
GROUP BY model_id
ORDER BY model_id
