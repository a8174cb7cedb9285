// SPDX-License-Identifier: Apache-2.0

package pool

// Functions for tests of other packages' kind.
var (
	NewMode       = newPool
	NewDMABufMode = newDMABuf
	NodeOf        = nodeOf
)
