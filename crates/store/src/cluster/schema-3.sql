-- Version 3: a node that stands by passes nothing on any more. It says who leads.

DROP FUNCTION cairn_answer(uuid, integer, bytea, bigint);
DROP TABLE cairn_answer;
DROP TABLE cairn_request;
