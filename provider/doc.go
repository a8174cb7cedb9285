// SPDX-License-Identifier: Apache-2.0

// Package provider is the contract between package verbs and the user-space
// half of a kernel driver, and the data-path types that both speak: work
// requests, completions, queue pair attributes and their constants.
//
// A [Driver] knows one kernel driver by its id. It opens a [Context] on a
// uverbs.File; the context makes completion queues and queue pairs, whose
// memory it shares with the kernel. Package verbs owns lifetimes, parents and
// the state table; a provider owns rings and doorbells. It never sees a file
// descriptor, and reads no memory by address: what a work request carries
// inline is a byte slice.
//
// Programs import package verbs, which has aliases of these types; this package
// is for those who write a driver or a test double.
package provider
