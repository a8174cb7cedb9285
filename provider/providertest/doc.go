// SPDX-License-Identifier: Apache-2.0

// Package providertest is what every provider has to pass: the promises of the
// contract in package provider, held against two connected queue pairs. How these
// get connected is the caller's, because devices differ in that.
package providertest
