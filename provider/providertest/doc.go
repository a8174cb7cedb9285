// SPDX-License-Identifier: Apache-2.0

// Package providertest is the conformance suite of providers. It checks the promises of the
// contract in package provider on two connected queue pairs. The caller connects them, because
// devices differ in how they connect.
package providertest
