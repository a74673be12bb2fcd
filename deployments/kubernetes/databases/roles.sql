-- One role and one database each for Prefect and for the ledger; neither may connect to the other's. PostgreSQL's image
-- runs this when its volume is new. It may be run again, for instance after a password was changed.
\set ON_ERROR_STOP on
\getenv prefect_password PREFECT_DATABASE_PASSWORD
\getenv ledger_password LEDGER_PASSWORD

SELECT format('CREATE ROLE %I LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE', wanted)
FROM unnest(ARRAY['prefect', 'ledger']) AS wanted
WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = wanted)
\gexec
ALTER ROLE prefect PASSWORD :'prefect_password';
ALTER ROLE ledger PASSWORD :'ledger_password';

SELECT format('CREATE DATABASE %I OWNER %I', database, role)
FROM (VALUES ('prefect', 'prefect'), ('leadline', 'ledger')) AS wanted(database, role)
WHERE NOT EXISTS (SELECT FROM pg_database WHERE datname = database)
\gexec
REVOKE ALL ON DATABASE prefect, leadline, postgres, template1 FROM PUBLIC;
