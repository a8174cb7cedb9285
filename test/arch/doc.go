// SPDX-License-Identifier: Apache-2.0

// Package arch holds the tests of the project's architecture: who may import
// whom, what the commands are linked with, what an importer of the module gets, and
// whether the documents name what is there.
package arch
