-- Cells of CSV files. Names in braces are filled in by tasks/db/csv_files.py.

-- statement: guard
-- A text that a spreadsheet does not take for a formula and that a terminal shows without obeying it.
CREATE OR REPLACE TEMP MACRO shown_text(cell) AS
    translate(replace(cell, chr(13) || chr(10), chr(10)), {acting}, {shown});
CREATE OR REPLACE TEMP MACRO guarded_text(cell) AS
    CASE
        WHEN left(cell, 1) IN (chr(9), chr(10), chr(13)) THEN '''' || shown_text(cell)
        WHEN left(ltrim(cell), 1) IN ({formula}) AND NOT regexp_full_match(cell, '{number}')
            THEN '''' || shown_text(cell)
        ELSE shown_text(cell)
    END;
