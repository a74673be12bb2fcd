-- Cells of CSV files. Names in braces are filled in by tasks/db/csv_files.py.

-- statement: guard
-- A text that a spreadsheet does not take for a formula and that a terminal shows without obeying it. What to look for is
-- told by regular expressions, for most texts hold nothing of it.
CREATE OR REPLACE TEMP MACRO guarded_text(cell) AS
    CASE WHEN regexp_matches(cell, '{risky}') AND NOT regexp_full_match(cell, '{number}') THEN '''' ELSE '' END
    || CASE
        WHEN regexp_matches(cell, '{acting}')
            THEN translate(replace(cell, chr(13) || chr(10), chr(10)), getvariable('csv_acting'), '{shown}')
        ELSE cell
    END;
