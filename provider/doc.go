// SPDX-License-Identifier: Apache-2.0

// Package provider is the contract between package verbs and the user-space part of a kernel
// driver. It also has the data-path types that both use: work requests, completions, queue pair
// attributes and their constants.
//
// A [Driver] supports one kernel driver, which it names by its id. It opens a [Context] on a
// uverbs.File. The context makes completion queues and queue pairs, whose memory it shares with the
// kernel. Package verbs owns lifetimes, parents and the state table. A provider owns rings and
// doorbells. It gets no file descriptor, and reads no memory by address. The inline data of a work
// request is a byte slice.
//
// Programs import package verbs, which has aliases of these types. This package is for authors of
// drivers and test doubles.
package provider
