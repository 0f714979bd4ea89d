/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The code that protoc makes from vipu.proto, compiled without the warnings that it doesn't know.
 * Owns nothing; codec.c is its only user.
 */
#pragma GCC diagnostic ignored "-Wcast-qual"

#include "vipu/vipu.pb-c.c" /* NOLINT(bugprone-suspicious-include): what this file is for */
