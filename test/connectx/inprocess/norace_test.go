// SPDX-License-Identifier: Apache-2.0

//go:build linux && !race

package inprocess_test

const raceEnabled = false
