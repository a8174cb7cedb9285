// SPDX-License-Identifier: Apache-2.0

// Package arch tests the project's architecture. It checks the imports of packages, the linking
// of commands, the dependencies of an importer of the module, the names in documents, and the
// failure messages of tests.
package arch
