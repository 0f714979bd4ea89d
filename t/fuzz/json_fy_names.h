/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Renames core/json.h's functions, so that libfyaml's back-end stands beside yyjson's in one
 * program. Included before all else (local.mk). A function that is missing here is defined twice,
 * which the linker tells.
 */
#ifndef IPU_T_FUZZ_JSON_FY_NAMES_H
#define IPU_T_FUZZ_JSON_FY_NAMES_H

/* clang-format off */
#define jmut_add fy_jmut_add
#define jmut_array fy_jmut_array
#define jmut_bool fy_jmut_bool
#define jmut_clone fy_jmut_clone
#define jmut_copy fy_jmut_copy
#define jmut_del fy_jmut_del
#define jmut_deln fy_jmut_deln
#define jmut_doc_free fy_jmut_doc_free
#define jmut_doc_freep fy_jmut_doc_freep
#define json_blank fy_json_blank
#define jmut_doc_new fy_jmut_doc_new
#define jmut_doc_new_secret fy_jmut_doc_new_secret
#define jmut_get fy_jmut_get
#define jmut_getn fy_jmut_getn
#define jmut_insert fy_jmut_insert
#define jmut_int fy_jmut_int
#define jmut_item fy_jmut_item
#define jmut_len fy_jmut_len
#define jmut_merge_patch fy_jmut_merge_patch
#define jmut_need_array fy_jmut_need_array
#define jmut_need_object fy_jmut_need_object
#define jmut_null fy_jmut_null
#define jmut_object fy_jmut_object
#define jmut_of fy_jmut_of
#define jmut_push fy_jmut_push
#define jmut_real fy_jmut_real
#define jmut_remove fy_jmut_remove
#define jmut_remove_if fy_jmut_remove_if
#define jmut_root fy_jmut_root
#define jmut_set fy_jmut_set
#define jmut_set_bool fy_jmut_set_bool
#define jmut_set_int fy_jmut_set_int
#define jmut_set_root fy_jmut_set_root
#define jmut_set_str fy_jmut_set_str
#define jmut_setn fy_jmut_setn
#define jmut_str fy_jmut_str
#define jmut_strf fy_jmut_strf
#define jmut_strz fy_jmut_strz
#define jmut_view fy_jmut_view
#define jmut_write fy_jmut_write
#define json_at fy_json_at
#define json_bool fy_json_bool
#define json_cstr fy_json_cstr
#define json_doc_free fy_json_doc_free
#define json_doc_freep fy_json_doc_freep
#define json_equal fy_json_equal
#define json_get fy_json_get
#define json_getn fy_json_getn
#define json_impl_add fy_json_impl_add
#define json_impl_check fy_json_impl_check
#define json_impl_invalid fy_json_impl_invalid
#define json_impl_set fy_json_impl_set
#define json_impl_str fy_json_impl_str
#define json_impl_too_deep fy_json_impl_too_deep
#define json_int fy_json_int
#define json_item fy_json_item
#define json_iter fy_json_iter
#define json_len fy_json_len
#define json_next fy_json_next
#define json_parse fy_json_parse
#define json_parse_secret fy_json_parse_secret
#define json_pointer_append fy_json_pointer_append
#define json_real fy_json_real
#define json_root fy_json_root
#define json_str fy_json_str
#define json_type fy_json_type
#define json_type_name fy_json_type_name
#define json_write fy_json_write
#define json_write_str fy_json_write_str
#define json_text fy_json_text
/* clang-format on */

#endif
