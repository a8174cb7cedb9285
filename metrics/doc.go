// SPDX-License-Identifier: Apache-2.0

// Package metrics publishes the counters of a Host for monitoring. Publish makes them a variable of
// package expvar, which an HTTP server serves as JSON. The module purerdma/prometheus has a collector for
// Prometheus.
//
// Programs that only want the numbers call verbs.Host.Stats and cm.StatsOf.
package metrics
