package jobstore

// The statements. Both databases understand them, as those of package store.
const (
	selectGroups = `SELECT organisation, name, cluster, namespace, spec, generation, created, updated, deleted, author, status
		FROM runner_groups WHERE organisation = $1`
	selectGroup = selectGroups + ` AND name = $2`
	countGroups = `SELECT COUNT(*) FROM runner_groups WHERE organisation = $1`
	insertGroup = `INSERT INTO runner_groups (organisation, name, cluster, namespace, spec, generation, created, updated, deleted, author, status)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $7, 0, $8, '') ON CONFLICT DO NOTHING`
	updateGroup  = `UPDATE runner_groups SET spec = $3, generation = $4, updated = $5, author = $6 WHERE organisation = $1 AND name = $2`
	markGroup    = `UPDATE runner_groups SET deleted = $3, generation = $4, author = $5 WHERE organisation = $1 AND name = $2 AND deleted = 0`
	selectStatus = `SELECT status FROM runner_groups WHERE organisation = $1 AND name = $2`
	observeGroup = `UPDATE runner_groups SET status = $3 WHERE organisation = $1 AND name = $2 AND status IN ('', $4)`
	deleteGroup  = `DELETE FROM runner_groups WHERE organisation = $1 AND name = $2 AND generation = $3 AND deleted <> 0`
	groupGone    = `UPDATE jobs SET group_deleted = $3 WHERE organisation = $1 AND runner_group = $2 AND group_deleted = 0`

	jobColumns = `organisation, name, runner_group, cluster, namespace, sandbox, routing_key, spec, sequence, generation, created, canceled, deleted,
		group_deleted, attempted, author, attempt`
	selectJobs       = `SELECT ` + jobColumns + ` FROM jobs WHERE organisation = $1`
	selectJob        = selectJobs + ` AND name = $2`
	selectJobsOf     = selectJobs + ` AND sandbox = $2`
	ofGroup          = ` AND phase = 'queued' AND attempted = 0 AND runner_group = $2`
	ofSandbox        = ` AND phase = 'queued' AND attempted = 0 AND sandbox = $2`
	selectWaitingOf  = selectJobs + ofSandbox
	selectNext       = selectJobs + ofGroup + ` AND deleted = 0 ORDER BY sequence LIMIT 1`
	countBefore      = `SELECT COUNT(*) FROM jobs WHERE organisation = $1 AND runner_group = $2 AND phase = 'queued' AND deleted = 0 AND sequence < $3`
	countJobs        = `SELECT COUNT(*) FROM jobs WHERE organisation = $1`
	countPhases      = `SELECT runner_group, phase, COUNT(*) FROM jobs WHERE organisation = $1 AND deleted = 0 AND phase IN ('queued', 'running') GROUP BY runner_group, phase`
	countOfSandboxes = `SELECT sandbox, phase, COUNT(*) FROM jobs WHERE organisation = $1 AND deleted = 0 AND sandbox <> '' GROUP BY sandbox, phase`
	insertJob        = `INSERT INTO jobs (organisation, name, runner_group, cluster, namespace, sandbox, routing_key, spec, sequence, generation, created, canceled, deleted,
		group_deleted, attempted, finished, phase, author, attempt)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $9, $10, 0, 0, 0, 0, 0, 'queued', $11, $12) ON CONFLICT DO NOTHING`
	writeJob = `UPDATE jobs SET generation = $3, canceled = $4, deleted = $5, phase = $6, finished = $7, author = $8, attempt = $9 WHERE organisation = $1 AND name = $2`
	// Statements that lock rows make concurrent observations of them wait, or wait for those: they return the newest state.
	lockJobs         = `UPDATE jobs SET attempted = attempted WHERE organisation = $1`
	lockJob          = lockJobs + ` AND name = $2 RETURNING ` + jobColumns
	lockWaitingGroup = lockJobs + ofGroup + ` RETURNING ` + jobColumns
	lockWaitingOf    = lockJobs + ofSandbox + ` RETURNING ` + jobColumns
	attemptJob       = `UPDATE jobs SET attempted = $3 WHERE organisation = $1 AND name = $2 AND generation = $4 AND phase IN ('queued', 'running') AND deleted = 0`
	// A phase that is final stays. The rest of the state can change, as when the output is lost.
	observeJob    = `UPDATE jobs SET phase = $3, finished = $4, attempt = $5 WHERE organisation = $1 AND name = $2 AND (phase IN ('queued', 'running') OR phase = $3) AND attempt <> $5`
	deleteJob     = `DELETE FROM jobs WHERE organisation = $1 AND name = $2`
	selectExpired = selectJobs + ` AND finished <> 0 AND finished < $2`

	selectGroupsIn = `SELECT name FROM runner_groups WHERE organisation = $1 AND cluster = $2`
	selectJobsIn   = `SELECT name FROM jobs WHERE organisation = $1 AND cluster = $2 AND (phase IN ('queued', 'running') OR deleted <> 0)`
)
