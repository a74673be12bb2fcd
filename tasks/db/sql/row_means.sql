-- Trials averaged within their row: a row is scored if some trial was, else unscored if some trial was, else not applicable.
CREATE OR REPLACE TEMP TABLE row_means AS
SELECT
    metric_id,
    row_id,
    CASE
        WHEN count(value) > 0 THEN 'scored'
        WHEN count(*) FILTER (status = 'unscored') > 0 THEN 'unscored'
        ELSE 'not_applicable'
    END::status AS status,
    CASE WHEN count(value) = 0 THEN min(reason) FILTER (status = 'unscored') END AS reason,
    avg(value) AS value
FROM scores
GROUP BY metric_id, row_id
