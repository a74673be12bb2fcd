"""DuckDB: connections to a run's database, its tables, and the SQL statements."""

from __future__ import annotations

from leadline.tasks.db.columns import Sql as Sql
from leadline.tasks.db.columns import TableColumn as TableColumn
from leadline.tasks.db.columns import columns_of as columns_of
from leadline.tasks.db.columns import definition as definition
from leadline.tasks.db.columns import line_of as line_of
from leadline.tasks.db.columns import read_lines as read_lines
from leadline.tasks.db.columns import table as table
from leadline.tasks.db.columns import table_of as table_of
from leadline.tasks.db.connection import DATASET_TABLES as DATASET_TABLES
from leadline.tasks.db.connection import STORED as STORED
from leadline.tasks.db.connection import attach_dataset as attach_dataset
from leadline.tasks.db.connection import compact as compact
from leadline.tasks.db.connection import connect as connect
from leadline.tasks.db.connection import digests_of as digests_of
from leadline.tasks.db.connection import kept_open as kept_open
from leadline.tasks.db.connection import lines_shown as lines_shown
from leadline.tasks.db.connection import literal as literal
from leadline.tasks.db.connection import open_run as open_run
from leadline.tasks.db.connection import records as records
from leadline.tasks.db.connection import release as release
from leadline.tasks.db.connection import replace_lines as replace_lines
from leadline.tasks.db.connection import show_row_scores as show_row_scores
from leadline.tasks.db.connection import show_targets as show_targets
from leadline.tasks.db.connection import sql as sql
from leadline.tasks.db.connection import threads_for as threads_for
from leadline.tasks.db.connection import without_progress_bar as without_progress_bar
from leadline.tasks.db.run_tables import TABLES as TABLES
from leadline.tasks.db.run_tables import Aggregate as Aggregate
from leadline.tasks.db.run_tables import CertificateState as CertificateState
from leadline.tasks.db.run_tables import Certification as Certification
from leadline.tasks.db.run_tables import Correction as Correction
from leadline.tasks.db.run_tables import Count as Count
from leadline.tasks.db.run_tables import Fault as Fault
from leadline.tasks.db.run_tables import Flip as Flip
from leadline.tasks.db.run_tables import FlipCause as FlipCause
from leadline.tasks.db.run_tables import FlipRate as FlipRate
from leadline.tasks.db.run_tables import Insight as Insight
from leadline.tasks.db.run_tables import MetricScore as MetricScore
from leadline.tasks.db.run_tables import Problem as Problem
from leadline.tasks.db.run_tables import RowId as RowId
from leadline.tasks.db.run_tables import SliceMean as SliceMean
from leadline.tasks.db.run_tables import TrialSpread as TrialSpread
from leadline.tasks.db.run_tables import Verdict as Verdict
from leadline.tasks.db.run_tables import run_definitions as run_definitions
