-- statement: scores
-- The scores of one evaluator's rows that the store holds, one line per metric; null is not applicable or
-- unscorable for good.
INSERT INTO scores
WITH held AS (
    SELECT key, trial, unscorable, {metric_columns}
    FROM read_parquet({segments})
    WHERE trial < {trials}
    {one_per_key}
)
SELECT
    metrics.metric_id,
    unpivoted.row_id,
    unpivoted.trial,
    CASE WHEN unpivoted.value IS NOT NULL THEN 'scored'
         WHEN list_contains(json_keys(unpivoted.unscorable), metrics.metric) THEN 'unscored'
         ELSE 'not_applicable' END,
    CASE WHEN unpivoted.value IS NULL AND list_contains(json_keys(unpivoted.unscorable), metrics.metric)
         THEN 'unscorable' END,
    unpivoted.value
FROM (
    SELECT plan.row_id, held.* EXCLUDE (key)
    FROM plan
    JOIN keys ON keys.row_id = plan.row_id AND keys.reads_id = {reads_id}
    JOIN held ON held.key = keys.key
    WHERE plan.evaluator_id = {evaluator_id} AND plan.state = 'score'
) UNPIVOT INCLUDE NULLS (value FOR metric IN ({metric_columns})) AS unpivoted
JOIN metrics ON metrics.evaluator_id = {evaluator_id} AND 'm:' || metrics.metric = unpivoted.metric;

-- statement: repeats
-- The further trials of the rows that were judged again, and of no others, whatever the store holds.
INSERT INTO repeats
WITH held AS (
    SELECT key, trial, evidence, {metric_columns}
    FROM read_parquet({segments})
    WHERE trial BETWEEN 1 AND {all_trials} - 1
    {one_per_key}
),
firsts AS (
    SELECT key, any_value(evidence) AS evidence
    FROM read_parquet({segments})
    WHERE trial = 0
    GROUP BY key
)
SELECT metrics.metric_id, unpivoted.row_id, unpivoted.trial, unpivoted.value, unpivoted.same_reason
FROM (
    SELECT rows_again.row_id, held.* EXCLUDE (key, evidence), 
        CASE WHEN length(held.evidence ->> '$.message') >= 30
            THEN (held.evidence ->> '$.message') IS NOT DISTINCT FROM (firsts.evidence ->> '$.message') END AS same_reason
    FROM (
        SELECT DISTINCT others.row_id, mine.key
        FROM again
        JOIN keys AS mine ON mine.row_id = again.row_id AND mine.reads_id = {reads_id}
        JOIN keys AS others ON others.key = mine.key AND others.reads_id = {reads_id}
        JOIN plan ON plan.row_id = others.row_id AND plan.evaluator_id = {evaluator_id} AND plan.state = 'score'
        WHERE again.evaluator_id = {evaluator_id}
    ) AS rows_again
    JOIN held ON held.key = rows_again.key
    LEFT JOIN firsts ON firsts.key = rows_again.key
) UNPIVOT (value FOR metric IN ({metric_columns})) AS unpivoted
JOIN metrics ON metrics.evaluator_id = {evaluator_id} AND 'm:' || metrics.metric = unpivoted.metric;

-- statement: evidence
INSERT INTO evidence
SELECT {evaluator_id}, plan.row_id, held.trial, held.evidence, held.flags, held.payload,
       held.unscorable ->> list_extract(json_keys(held.unscorable), 1)
FROM plan
JOIN keys ON keys.row_id = plan.row_id AND keys.reads_id = {reads_id}
JOIN (
    SELECT key, trial, evidence, flags, payload, unscorable
    FROM read_parquet({segments})
    WHERE trial < {trials}
      AND (evidence IS NOT NULL OR flags IS NOT NULL OR payload IS NOT NULL OR unscorable IS NOT NULL)
    {one_per_key}
) AS held ON held.key = keys.key
WHERE plan.evaluator_id = {evaluator_id} AND plan.state = 'score';

-- statement: unscored
-- What this run could not measure; a metric that has a value although another of its row has none keeps it. A row that
-- another attempt did score is left out, whichever of the two a slow worker wrote last.
INSERT INTO scores
SELECT metrics.metric_id, plan.row_id, failed.trial,
       CASE WHEN failed.value IS NOT NULL THEN 'scored'
            WHEN failed.reason IS NOT NULL THEN 'unscored'
            ELSE 'not_applicable' END,
       failed.reason, failed.value
FROM plan
JOIN keys ON keys.row_id = plan.row_id AND keys.reads_id = {reads_id}
JOIN read_parquet({unscored}) AS failed ON failed.key = keys.key AND failed.evaluator_id = {evaluator_id}
JOIN metrics ON metrics.evaluator_id = {evaluator_id} AND metrics.metric = failed.metric
ANTI JOIN (SELECT metric_id, row_id, trial FROM scores) AS held
    ON held.metric_id = metrics.metric_id AND held.row_id = plan.row_id AND held.trial = failed.trial
WHERE plan.evaluator_id = {evaluator_id} AND plan.state = 'score'
QUALIFY row_number() OVER (
    PARTITION BY metrics.metric_id, plan.row_id, failed.trial ORDER BY failed.value IS NULL, failed.filename
) = 1;

-- statement: unscored_evidence
INSERT INTO evidence
SELECT {evaluator_id}, plan.row_id, failed.trial, any_value(failed.evidence), any_value(failed.flags), NULL,
       any_value(failed.message)
FROM plan
JOIN keys ON keys.row_id = plan.row_id AND keys.reads_id = {reads_id}
JOIN read_parquet({unscored}) AS failed ON failed.key = keys.key AND failed.evaluator_id = {evaluator_id}
JOIN metrics ON metrics.evaluator_id = {evaluator_id} AND metrics.metric = failed.metric
SEMI JOIN (SELECT metric_id, row_id, trial FROM scores WHERE status = 'unscored' AND reason != 'unscorable') AS kept
    ON kept.metric_id = metrics.metric_id AND kept.row_id = plan.row_id AND kept.trial = failed.trial
WHERE plan.evaluator_id = {evaluator_id} AND plan.state = 'score'
GROUP BY plan.row_id, failed.trial;

-- statement: unmeasured
-- Rows that were never looked at: an input is missing, they are too many, the outcome is
-- decided without them, the host failed, the evaluator or its worker was lost.
INSERT INTO scores
SELECT metrics.metric_id, plan.row_id, trials.trial,
       CASE WHEN plan.state IN ('not_applicable', 'over_limit', 'not_needed') THEN 'not_applicable' ELSE 'unscored' END,
       CASE plan.state WHEN 'not_applicable' THEN NULL WHEN 'score' THEN {lost} ELSE plan.state END,
       NULL
FROM plan
JOIN metrics ON metrics.evaluator_id = {evaluator_id} AND NOT metrics.dataset_level
JOIN range({trials}) AS trials(trial) ON trials.trial = 0 OR plan.state = 'score'
ANTI JOIN (
    SELECT row_id, trial FROM scores
    WHERE metric_id IN (SELECT metric_id FROM metrics WHERE evaluator_id = {evaluator_id})
) AS known ON known.row_id = plan.row_id AND known.trial = trials.trial
WHERE plan.evaluator_id = {evaluator_id};

-- statement: unmeasured_evidence
INSERT INTO evidence
SELECT {evaluator_id}, plan.row_id, 0, NULL, NULL, NULL,
       CASE plan.state WHEN 'host_error' THEN rows.error
                       ELSE 'The row is beyond the limit of rows that this evaluator may score.' END
FROM plan
JOIN (SELECT row_id, error FROM all_rows) AS rows USING (row_id)
WHERE plan.evaluator_id = {evaluator_id} AND plan.state IN ('host_error', 'over_limit');

-- statement: metric_questions
SELECT metric_id, evaluator_id, metric, question FROM metrics JOIN rules USING (metric_id) ORDER BY metric_id

-- statement: reduce_turns
-- Scores of turns, and what they rest on, make those of their conversation.
CREATE OR REPLACE TEMP MACRO of_whole(how, value, turn) AS
CASE any_value(how) WHEN 'min' THEN min(value) WHEN 'max' THEN max(value) WHEN 'sum' THEN sum(value)
    WHEN 'last' THEN arg_max(value, turn) ELSE avg(value) END;

INSERT INTO turn_scores
SELECT metric_id, row_id, conversation_id, turn, trial, status, reason, value
FROM scores
JOIN (SELECT row_id, conversation_id, turn FROM turns WHERE unit = 'turn') AS parts USING (row_id);

INSERT INTO turn_evidence
SELECT evaluator_id, row_id, conversation_id, turn, trial, evidence, flags, error
FROM evidence
JOIN (SELECT row_id, conversation_id, turn FROM turns WHERE unit = 'turn') AS parts USING (row_id)
WHERE evidence IS NOT NULL OR flags IS NOT NULL OR error IS NOT NULL;

DELETE FROM scores WHERE row_id IN (SELECT row_id FROM turns WHERE unit = 'turn');

INSERT INTO scores
SELECT
    metric_id, conversation_id, trial,
    CASE WHEN count(*) FILTER (status = 'unscored') > 0 THEN 'unscored'
         WHEN count(value) > 0 THEN 'scored'
         ELSE 'not_applicable' END,
    CASE WHEN count(*) FILTER (status = 'unscored') > 0 THEN min(reason) FILTER (status = 'unscored')
         WHEN count(value) = 0 THEN min(reason) END,
    CASE WHEN count(*) FILTER (status = 'unscored') = 0 THEN of_whole(how, value, turn) END
FROM turn_scores
JOIN over_turns USING (metric_id)
GROUP BY metric_id, conversation_id, trial;

-- What an evaluator has to say of a conversation is what it says of its worst turn by the metric that stands for it;
-- flags are those of all turns.
CREATE OR REPLACE TEMP TABLE told_of_turns AS
WITH worst AS (
    SELECT
        evaluator_id, conversation_id, trial,
        arg_min(turn, (status <> 'unscored', if(higher_is_better, value, -value), turn)) AS turn
    FROM turn_scores
    JOIN (SELECT metric_id, evaluator_id, higher_is_better FROM metrics WHERE is_primary) AS known USING (metric_id)
    WHERE status <> 'not_applicable'
    GROUP BY evaluator_id, conversation_id, trial
),
flagged AS (
    SELECT
        evaluator_id, conversation_id, trial,
        '[' || string_agg(flags[2:-2], ',' ORDER BY turn) FILTER (length(flags) > 2) || ']' AS flags
    FROM turn_evidence
    GROUP BY evaluator_id, conversation_id, trial
)
SELECT
    evaluator_id, conversation_id, trial, worst.turn, told.evidence, flagged.flags, told.error
FROM worst
LEFT JOIN turn_evidence AS told USING (evaluator_id, conversation_id, trial, turn)
LEFT JOIN flagged USING (evaluator_id, conversation_id, trial);

-- Payloads of dataset-level metrics stay one by one: those of a conversation share its weight.
CREATE OR REPLACE TEMP TABLE paid_of_turns AS
SELECT evaluator_id, conversation_id, trial, payload
FROM evidence
JOIN (SELECT row_id, conversation_id FROM turns WHERE unit = 'turn') AS parts USING (row_id)
WHERE payload IS NOT NULL;

DELETE FROM evidence WHERE row_id IN (SELECT row_id FROM turns WHERE unit = 'turn');

INSERT INTO evidence
SELECT
    evaluator_id, conversation_id, trial,
    CASE WHEN evidence IS NOT NULL THEN json_object(
        'message', 'Turn ' || turn || ': ' || coalesce(evidence ->> '$.message', ''),
        'data', json_object('turn', turn, 'of_turn', evidence -> '$.data')
    ) END,
    flags, NULL, CASE WHEN error IS NOT NULL THEN 'Turn ' || turn || ': ' || error END
FROM told_of_turns
WHERE evidence IS NOT NULL OR flags IS NOT NULL OR error IS NOT NULL;

INSERT INTO evidence SELECT evaluator_id, conversation_id, trial, NULL, NULL, payload, NULL FROM paid_of_turns;

-- A conversation was judged again where all its turns were that have a score.
CREATE OR REPLACE TEMP TABLE repeats_of_turns AS
SELECT metric_id, conversation_id, trial, of_whole(how, value, turn) AS value, bool_and(same_reason) AS same_reason
FROM repeats
JOIN (SELECT row_id, conversation_id, turn FROM turns WHERE unit = 'turn') AS parts USING (row_id)
JOIN over_turns USING (metric_id)
JOIN (
    SELECT metric_id, conversation_id, count(value) AS n FROM turn_scores GROUP BY metric_id, conversation_id
) AS firsts USING (metric_id, conversation_id)
GROUP BY metric_id, conversation_id, trial, n
HAVING count(*) = n;

DELETE FROM repeats WHERE row_id IN (SELECT row_id FROM turns WHERE unit = 'turn');

INSERT INTO repeats FROM repeats_of_turns;
