// SPDX-License-Identifier: Apache-2.0

// Package fakeuverbs is what the fake kernels of tests have in common: a verbs
// character device that dispatches requests, and the objects that are alike for
// all drivers, which are protection domains, memory, windows, address handles,
// XRC domains and event files. A fake of one driver adds its queues.
package fakeuverbs
