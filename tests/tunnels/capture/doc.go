// Package capture sees the connections of tunnel proxies from outside of the product, and holds
// their audit against what it saw: Services leads connections to proxies and notes them,
// Destinations are where workstations connect to, and a Comparison counts what an audit lacks.
package capture
