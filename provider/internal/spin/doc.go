// SPDX-License-Identifier: Apache-2.0

// Package spin has the lock of the providers' queues, and the store that hands an index to another
// goroutine. Both cost less than package sync and sync/atomic on amd64.
package spin
