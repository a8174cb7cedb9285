// SPDX-License-Identifier: Apache-2.0

// Package streamtest has the common parts of rstream and riostream. These are the options, the
// connections, the tests, the rows of the output, and the data that both sides verify.
package streamtest
