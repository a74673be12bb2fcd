-- Differences between the leading model of a metric (in leaders) and each other model on the cases that both answered,
-- summed within families of copies, then over them.
WITH ours AS (
    SELECT metric_id, rows.model_id, case_id, value
    FROM row_scores
    JOIN rows USING (row_id)
    JOIN (SELECT DISTINCT metric_id FROM leaders) USING (metric_id)
    WHERE isfinite(value)
),
differences AS (
    SELECT
        metric_id,
        leaders.model_id AS leader,
        others.model_id,
        coalesce(family, -1 - case_id::BIGINT) AS cluster,
        led.value - others.value AS difference
    FROM leaders
    JOIN ours AS led USING (metric_id, model_id)
    JOIN ours AS others USING (metric_id, case_id)
    LEFT JOIN families USING (case_id)
    WHERE others.model_id <> leaders.model_id
)
SELECT
    metric_id,
    leader,
    model_id,
    sum(n)::BIGINT AS n,
    count(*) AS clusters,
    sum(total) AS total,
    sum(total * total) AS total_total,
    sum(n * total) AS n_total,
    sum(n * n)::DOUBLE AS n_n,
    min(least) = max(most) AS constant
FROM (
    SELECT
        metric_id, leader, model_id, cluster,
        count(*) AS n, sum(difference) AS total, min(difference) AS least, max(difference) AS most
    FROM differences
    GROUP BY metric_id, leader, model_id, cluster
)
GROUP BY metric_id, leader, model_id
