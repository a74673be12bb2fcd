-- The work of each evaluator of a run: the rows of its primary metric by what became of them, and the distinct scores that
-- were found in the store or computed.
SELECT
    evaluators.evaluator,
    evaluators.lane,
    coalesce(sum(aggregates.n_scored), 0)::BIGINT AS "rows scored",
    coalesce(sum(aggregates.n_unscored), 0)::BIGINT AS "rows unscored",
    evaluators.reused,
    evaluators.computed,
    evaluators.error
FROM evaluators
LEFT JOIN metrics ON metrics.evaluator_id = evaluators.evaluator_id AND metrics.is_primary
LEFT JOIN aggregates ON aggregates.metric_id = metrics.metric_id
GROUP BY ALL
ORDER BY evaluators.evaluator
