// SPDX-License-Identifier: Apache-2.0

// Package fakeuverbs has the common parts of the fake kernels of tests. It has a verbs character device
// that dispatches requests, and the objects that all drivers share. These are protection domains, memory,
// windows, address handles, XRC domains and event files. The fake of a driver adds the queues.
package fakeuverbs
