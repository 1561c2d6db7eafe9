// Package sample takes samples of resource plugins (workflows/samples) through their life on a
// real cluster that has podinfo and its Redis (tools/demo/resource): a store of the sandbox's
// own, the baseline's for all others, values in Secrets alone, and nothing left in the end.
//
// tests/e2e does so with the one that needs least, tests/e2e/workflows with all.
package sample
