package teststore

// The statements. Both databases understand them, as those of package store.
const (
	selectTests = `SELECT organisation, name, spec, generation, created, updated FROM tests WHERE organisation = $1`
	selectTest  = selectTests + ` AND name = $2`
	sumTests    = `SELECT CAST(COALESCE(SUM(OCTET_LENGTH(spec)), 0) AS BIGINT) FROM tests WHERE organisation = $1`
	countTests  = `SELECT COUNT(*) FROM tests WHERE organisation = $1`
	putTest     = `INSERT INTO tests (organisation, name, spec, generation, created, updated) VALUES ($1, $2, $3, $4, $5, $5)
		ON CONFLICT (organisation, name) DO UPDATE SET spec = excluded.spec, generation = excluded.generation, updated = excluded.updated`
	deleteTest = `DELETE FROM tests WHERE organisation = $1 AND name = $2`

	columns      = `organisation, id, sequence, cluster, test, run, sandbox, routing_key, revision, trigger_id, script, timeout, created, canceled, author, spec, status, results`
	selectAll    = `SELECT ` + columns + ` FROM test_executions WHERE organisation = $1`
	selectOne    = selectAll + ` AND id = $2`
	ofRun        = ` AND ($3 = '' OR run = $3)`
	selectSized  = `SELECT ` + columns + `, OCTET_LENGTH(script) + OCTET_LENGTH(spec) + OCTET_LENGTH(status) + OCTET_LENGTH(results) FROM test_executions WHERE organisation = $1`
	selectOlder  = selectSized + ` AND sequence < $2` + ofRun
	selectNewer  = selectSized + ` AND sequence > $2` + ofRun
	newestFirst  = ` ORDER BY sequence DESC`
	oldestFirst  = ` ORDER BY sequence`
	unended      = ` AND phase IN ('pending', 'in_progress')`
	selectFormer = `SELECT id FROM test_executions WHERE organisation = $1 AND sandbox = $2 AND trigger_id = $3 AND trigger_id <> '' AND revision <= $4` + unended
	selectSame   = `SELECT 1 FROM test_executions WHERE organisation = $1 AND sandbox = $2 AND trigger_id = $3 AND revision = $4`
	countAll     = `SELECT COUNT(*) FROM test_executions WHERE organisation = $1`
	insert       = `INSERT INTO test_executions (` + columns + `, finished, phase, passed, failed, green, yellow, red)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, 0, $14, $15, $16, '', 0, 'pending', 0, 0, 0, 0, 0) ON CONFLICT DO NOTHING`
	lock  = `UPDATE test_executions SET phase = phase WHERE organisation = $1 AND id = $2 RETURNING ` + columns
	begin = `UPDATE test_executions SET phase = 'in_progress', status = $4 WHERE organisation = $1 AND id = $2 AND phase = 'pending'
		AND (SELECT COUNT(*) FROM test_executions WHERE organisation = $1 AND cluster = $3 AND phase = 'in_progress') < $5`
	cancel  = `UPDATE test_executions SET canceled = $3, phase = $4, finished = $5, status = $6 WHERE organisation = $1 AND id = $2`
	observe = `UPDATE test_executions SET phase = $3, finished = $4, status = $5, results = $6, passed = $7, failed = $8, green = $9, yellow = $10, red = $11
		WHERE organisation = $1 AND id = $2` + unended
	selectNamesIn = `SELECT id FROM test_executions WHERE organisation = $1 AND cluster = $2` + unended + ` ORDER BY sequence`
	summaries     = `SELECT routing_key, revision, phase, COUNT(*), SUM(passed), SUM(failed), SUM(green), SUM(yellow), SUM(red) FROM test_executions
		WHERE organisation = $1 AND sandbox <> '' GROUP BY routing_key, revision, phase`
	expire = `DELETE FROM test_executions WHERE organisation = $1 AND finished <> 0 AND finished < $2`
)
