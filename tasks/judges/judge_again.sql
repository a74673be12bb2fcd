-- Replies of a judge to one row, as the store holds them.

-- statement: stored_replies
-- One line for each trial; the same trial may be in several segments.
SELECT DISTINCT ON (trial) * FROM read_parquet({segments}, union_by_name = true) WHERE key = $key ORDER BY trial
