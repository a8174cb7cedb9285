// SPDX-License-Identifier: Apache-2.0

package uverbs

// System is the running kernel: devices below /dev/infiniband. On systems other
// than Linux its calls return errors.ErrUnsupported.
type System struct{}

var _ Kernel = System{}
