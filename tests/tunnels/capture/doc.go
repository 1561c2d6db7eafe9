// Package capture sees the connections of tunnel proxies from outside of the product, and
// compares their audit with them: Services forwards connections to proxies and notes them,
// Destinations are the targets of workstations, and a Comparison counts what an audit lacks.
package capture
