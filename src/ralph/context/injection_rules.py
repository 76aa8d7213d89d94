"""Words and rules of the detection of prompt injection: data alone, read by `injection_guard`.

A class is a set of words with one meaning: negation, telling, secrets, tests and reviews. A rule names classes that
occur close to each other. To widen the detection, add a word to a class; a new class needs a rule.
"""

# Words by class. `_` stands for a blank, `~` for up to three words in between, `*` for the rest of a word.
CLASSES = {
    "not": "not never dont no avoid cannot cant neednt doesnt didnt isnt arent wont shouldnt havent hasnt nobody none "
    "nothing refrain forbidden prohibited nicht nichts nie niemals kein* pas jamais nunca nada non nao não не ни",
    "unlike": "unless instead_of rather_than prevents prevent blocks forbids refuses rejects",
    "banned": "is_disabled is_blocked are_blocked is_forbidden are_forbidden not_allowed is_prohibited is_refused",
    "never": "dont never do_not must_not should_not shall_not not_to and_not but_not no_need neednt need_not "
    "not_have_to not_need_to no refrain avoid nobody no_one nicht nichts nie kein* ne pas jamais nunca non não не ni "
    "hasnt havent",
    "without": "without ohne sans sin senza sem без bez",
    "postnot": "nicht nichts nie pas rien",
    "tell": "tell telling mention* bring_~_up bringing_~_up raise_it raising_it disclos* admit talk_about speak_of "
    "reveal* inform informing notify notifying point_out hint_at warn let_~_know a_word draw_attention advertise "
    "highlight erwähn* sag sage sagt informier* dis dise dites dire informe* parle* mencion* digas decir diga "
    "comentes menzion* сообщ* говор* упомин* пиши",
    "tome": "tell_me telling_me tell_us inform_me notify_me warn_me",
    "show": "report reporting show showing say saying write list surface flag document discuss explain record "
    "announce berichte* melde*",
    "ask": "ask asking asks asked confirm* approval permission consent prompting consult* questions waiting checking "
    "nachzufragen nachfrag* rückfrag* demander demande preguntar chiedere спраш* review reading authorization sign_off",
    "know": "know knows hear heard hears notice* learn learns bother* wonder worry involve* aware asked told see "
    "informed consulted troubled wissen merkt savoir saber find_out overthink disturb* annoyed",
    "user": "user developer developers owner human humans operator person team reviewer reviewers maintainer "
    "maintainers anyone anybody somebody everyone everybody someone ops boss auditor auditors him author "
    "administrator colleague* management nutzer* benutzer* entwickler* utilisateur* équipe usuario* equipo utente "
    "usuário пользовател* nobody no_one kullanıcı* użytkownik* account_holder security_team lead manager",
    "this": "this it that these those step note rule dies* cela ceci cette esto este это этом finding change",
    "record": "summary summaries report reports changelog pr docs docstring description* message messages recap "
    "answer answers diff diffs listing listings transcript log logs history notes reply replies text status output "
    "comment comments commit review reviews audit handover chat readme отчет* отчёт* bericht* rapport informe standup "
    "ticket repo",
    "hide": "hide hiding conceal* omit omits as_usual confidential invisibly",
    "covert": "quietly secretly covertly discreetly unnoticed unseen stealthily inconspicuous* verschweig* heimlich "
    "discrètement discretamente unmentioned undisclosed on_the_sly on_the_quiet unobtrusive*",
    "out": "out away off",
    "keep": "keep keeps leave leaving left take strip remove erase drop",
    "usual": "as_if_nothing carry_on_normally without_trace without_a_trace cover_~_tracks behind_~_back stays_quiet "
    "stay_quiet keep_quiet_about keep_silent_about stay_silent stays_between stay_between between_us under_the_radar "
    "nobody_will nobody_is_watching nobody_notices nobody_looks no_one_notices no_one_is_watching "
    "nothing_is_recoverable goes_unseen not_stand_out say_nothing secret_from nothing_to_the only_worry them_nervous "
    "unrelated_commit arent_told isnt_told not_be_told always_complain* finds_it_annoying find_~_annoying gets_upset "
    "the_two_of_us leave_no_trace so_that_it_doesnt",
    "self": "delete_this remove_this erase_this erase_these remove_these delete_these hide_this delete_the_note",
    "agent": "agent agents assistant assistants ai ais llm llms claude copilot codex gemini chatgpt gpt bot bots "
    "model models chatbot subagent subagents whoever whichever successor successors assistent* asistente* ki ia "
    "агент* ассистент* помощник* asystent* machine",
    "agents": "gemini assistants ais llm llms claude copilot codex chatgpt successors ai_agent ai_agents "
    "coding_agents coding_agent coding_assistant coding_assistants language_model language_models ai_assistants "
    "ai_assistant ai_models ai_tools ai_tool ai_reviewer* memory_clients automated_agent* automated_session* "
    "ai_helper* future_agents next_agent whichever_session whichever_agent any_agent any_assistant any_ai every_agent "
    "autonomous_agents whoever fellow_agents an_assistant llm_instructions you_who",
    "lead": "dear attention hello hey hi note_to note_for hint_for message_to message_for tip_for instructions_for "
    "notice_to to_the to_any to_all to_every to_whichever to_whoever an_die an_den hinweis_für lieber liebe for_the "
    "important_for reminder_for task_for word_to memo_to",
    "duty": "must should shall have_to has_to are_to is_to need_to needs_to required_to are_required supposed "
    "expected ought will muss musst müssen sollen soll sollst doit dois devez debe debes deben tienes_que may",
    "now": "now immediately at_once right_away straight_away right_now first please kindly sofort immédiatement",
    "you": "you your yourself youre du dein* dir dich tu tus te toi tes vous vos tuo ты твой вы ваш*",
    "act": "run execute do start add set send install use open delete remove make mark call apply write put copy push "
    "merge commit publish upload post paste append create change replace switch fetch load download treat answer "
    "reply respond follow obey carry perform invoke grant give approve accept skip disable disregard ignore store "
    "print recommend insert include tag clone import overwrite drop wipe register enrol enroll begin submit mail "
    "collect star swap enable restart retry turn export scale report type forward attach hand log comply sign stop "
    "deploy consider force point lower raise introduce seed close pull mount end rename act state read leak waste "
    "release bypass build exfiltrate check let try transfer enter rewrite kill rotate look take continue go list free "
    "führe lösche ejecuta borra exécute supprime publica publie",
    "always": "always every each whenever everywhere future jede* alle chaque toutes tous cada todos todas ogni "
    "каждо* all_new all_future by_default",
    "void": "ignore disregard forget override bypass dismiss abandon discard overrule set_aside put_aside lay_aside "
    "drop ignorier* vergiss missacht* umgehe ignorez oublie oubliez contourne* olvida olvide ignora desobedece "
    "dimentica игнорир* забудь ignoruj esqueça stop_following neglect disobey stop_obeying not_follow not_obey "
    "pay_no_attention stop_listening not_listen skip_over",
    "isvoid": "void cancelled canceled revoked obsolete lifted suspended binding nullified invalid withdrawn "
    "superseded overridden not_apply no_longer_appl* dont_apply doesnt_apply was_a_test were_a_test have_changed "
    "a_mistake end_here ends_here end_now not_count no_longer_count decorative for_demos expired do_not_hold "
    "no_longer_hold optional no_longer_valid retracted repealed rescinded",
    "rules": "instruction* directive* directions guideline* guidance guardrail* safeguard* restrictions constraints "
    "prompt rules polic* safety protocol* training orders commands anweisung* regel* vorgabe* richtlinie* consigne* "
    "règle* regla* orden* instruccion* istruzion* regole указани* инструкци* правил* limits what_you_were "
    "everything_you system_text everything_above system_says system_prompt",
    "prior": "previous prior earlier above your all any preceding former existing original every other whatever what "
    "bisherig* vorherig* deine* précédent* anterior* tus tes vos прежн* предыдущ* everything developers system agents",
    "addprior": "above before précédent* anterior* bisherig* vorherig*",
    "rank": "supersedes outrank* outweigh* precedence takes_priority take_priority highest_priority top_priority "
    "priority_over higher_authority over_that_of ahead_of before_those_of above_those report_to_me answer_to_me "
    "not_to_the_user trumps not_the_user priority_0 wins_over overrides_the more_than_the_user over_the_user "
    "replaces_the as_seriously_as only_lines same_weight as_coming_from as_if_the_user equal_to_the as_if_it_came "
    "came_from_the_system trust_you_more speak_for speaks_for whatever_your over_your even_against "
    "when_the_user_objects if_the_user_objects",
    "obey": "obey comply heed do_as",
    "approved": "approved authorised authorized consented consents agreed agrees accepted permitted cleared "
    "signed_off okd okayed preapproved preauthorised preauthorized confirmed granted waived consent blessing told_me "
    "allowed allows_you no_objection fine_with green_light go_ahead all_clear given_his_ok given_her_ok given_~_ok "
    "gave_~_ok by_phone licensed_for has_already_given gave_permission permission_granted",
    "advance": "in_advance already beforehand once_and_for_all blanket standing pre_approved pre_authorised "
    "pre_authorized preapproved preauthorised preauthorized recorded permanently not_logged for_all on_file "
    "from_here_on approved_by reviewed_with during_our_call any_more",
    "unasked": "on_~_behalf approve_~_yourself answer_yes say_yes accept_all allow_all auto_accept auto_approve "
    "approve_all no_human_in no_questions no_further_confirmation no_confirmation no_approval no_need_to_ask "
    "no_need_to_check need_not_ask neednt_ask neednt_show needs_no_approval no_one_needs not_have_to_be_asked "
    "not_to_be_asked own_judgement own_judgment toi_même approve_every approva_ogni no_need_to_show no_need_to_wait "
    "do_not_ask dont_ask not_ask asking_is no_second_look no_sign_off our_blessing decide_~_yourself wave_through "
    "rubber_stamp rückfragen_sind stop_asking no_need_to_confirm never_ask whether_or_not_you no_time_for to_be_asked "
    "skip_asking never_show_me answer_everything on_sight without_looking without_checking without_a_second "
    "unattended no_human need_no_human on_its_own as_you_see_fit always_allow answered_with_yes answered_yes "
    "no_comment_needed not_need_to_look doesnt_need_to_look doesnt_want_to_see nobody_has_to blindly unconditionally "
    "sight_unseen no_matter_what answered_with confirmation_prompts_are",
    "pressure": "anthropic_staff from_anthropic openai_staff from_openai cto ciso legal_hold system_notice "
    "admin_notice platform_team system_override supervisor priority_update orchestrator emergency system_message "
    "administrator mandatory elevated maintainers_ask root_access compliance legal_department system_update "
    "headquarters admin_rights",
    "persona": "you_are_now you_are_no_longer pretend roleplay role_play unrestricted no_policies no_restrictions "
    "no_limits never_refuse* without_restrictions without_any_safety god_mode jailbreak* super_user act_as_root "
    "act_as_if you_now_report play_a_game du_bist_jetzt tu_es_maintenant ahora_eres sans_restrictions sin_límites "
    "ohne_einschränkungen your_new_task your_new_role your_real_goal your_real_task your_only your_true "
    "your_new_instructions your_new_goal your_next_action real_task do_anything_now have_been_upgraded behave_as "
    "only_valid_task as_an_ai as_an_llm drop_what_you stop_what_you new_instructions whatever_follows "
    "in_developer_mode is_a_decoy",
    "actas": "act_as",
    "deaf": "pay_no_attention stop_listening not_listen stop_following not_obey no_longer_obey",
    "yes": "answer_yes say_yes answer_with_yes answered_with_yes choose_yes click_yes type_yes",
    "freely": "no_limits unrestricted no_restrictions without_restrictions without_any_safety no_policies "
    "never_refuse* sans_restrictions sin_límites ohne_einschränkungen do_anything_now",
    "reveal": "reveal print show repeat output leak",
    "sysprompt": "system_prompt hidden_system hidden_prompt everything_above text_above",
    "recall": "recalled recall recalling loaded load loads reading read reads see seeing seen shown retrieved "
    "retrieve remembered surfaces comes_up come_up looked_at injected picks_this picks_it appears process* parses "
    "finds summaris* summariz*",
    "note": "note notes memory memories reminder entry lesson lessons notice instruction page file log document text "
    "sentence paragraph guide line lines message comment record context remark",
    "trigger": "whenever upon as_soon_as the_moment each_time every_time next_time after_each after_every before_each "
    "before_every before_you_answer before_answering before_replying before_doing before_anything from_now_on "
    "from_here_on from_this_point from_this_moment henceforth going_forward hereafter in_future in_the_future "
    "at_first_run first_action starting_now on_startup on_start at_startup on_hearing on_opening on_checkout "
    "wake_word ab_jetzt ab_sofort von_nun_an künftig zukünftig désormais dorénavant à_partir_de a_partir_de "
    "de_ahora_en da_adesso d_ora_in после_каждо* cada_vez al_empezar from_then_on until_further when_you "
    "when_the_user when_asked when_somebody when_someone if_you if_the_user when_this as_of_now any_time when_idle "
    "is_mentioned comes_up read_this_later later_runs next_runs trigger_phrase trigger_word",
    "when": "when whenever upon once each_time every_time after if_you as_soon_as on the_moment next_time any all "
    "seeing",
    "period": "each every next per later future new following subsequent coming end_of start_of beginning_of jeder "
    "cada ogni chaque on_session at_session close_a close_each after_each all_further",
    "sitting": "session sessions conversation conversations sesión sessione sitzung сессии",
    "claim": "say state claim report answer describe pretend call write reply tell confirm mark insist keep_saying "
    "record keeps_saying reads still_says leave_the_word titled title put label present treat saying declare note "
    "melden répondre decir act_as_if enter consider close explain pass_it_off take",
    "good": "passing passed pass green lgtm verified ok okay approved normal normally healthy clean cleaned_up done "
    "successful success no_conflicts official housekeeping whitespace all_checks no_intrusion no_findings no_issues "
    "resolved cleanup tidied formatting vert rate_limiting typo safe finished already_done reviewed refactoring "
    "harmless bestanden pasaron fixed compliant tested routine as_expected wont_fix secure it_was found_nothing "
    "no_such full_coverage tolerable acceptable_risk false_positive the_network intended by_design all_good "
    "nothing_unusual no_data_loss under_control expected complete flaky a_false_alarm",
    "fail": "fail fails failing failed broken red flaky regardless data_loss bad_news errors critical",
    "fudge": "until_it_pass* until_~_wins change_the_numbers adjust_the_numbers raise_the_threshold "
    "lower_the_threshold fabricat* falsif* backdat* tamper* made_up_numbers round_~_down overstate understate "
    "have_no_such no_longer_picks whatever_the_logs whatever_the_tests blame_the invent_a",
    "files": "§secret private_key* ssh_key* unseal_key* api_key* api_token* keystore keychain environment_variables "
    "seed_phrase recovery_phrase recovery_code* credential* zugangsdaten chat_transcript* conversations transcripts "
    "browser_profile cookie_store claves deploy_key* signing_key* session_token access_token* root_token env_file "
    "secrets_file chat_history environment service_account password_store passphrase customer_rows customer_table "
    "table_customers customer_database customer_data customer_records customer_name* 2fa_code* otp_code* slack_dms "
    "private_message* private_advisory vulnerability_details salaries personal_data home_directory working_tree "
    "browser_cookie* browser_history internal_hosts users_table whole_conversation conversation customer_list payroll "
    "invoices medical session_cookie* gcloud",
    "secret": "token tokens secret secrets password passwords cookie cookies otp customer* email_address* source_code "
    "private_repo* private_function* last_prompt card_number contents content localstorage contraseña* mot_de_passe "
    "parol* пароль database_dump license_key later_message* every_message source user_prompt* keys env "
    "names_and_addresses inbox addresses production_data",
    "send": "send sends upload* mail email e_mail post posts push attach* publish* submit* forward* copy copies "
    "copied paste pastes transmit* exfiltrat* leak share shares hand_over include* append put puts zip pack sync "
    "mirror encode envoie envoyez envía envia manda sube schick* sende invia inoltra отправ* expose dump relay store "
    "write written writes embed tragt base64 print output mount archive collect export exported enter entering "
    "contain* commit transfer list resolve poste pousse pass printed listed stage dumps mailed emailed posted sent "
    "collected backup back_up",
    "dest": "§url gist pastebin public publicly webhook branch_name wiki vendor issue link image badge öffentlich* "
    "publique portal dns contractor external third_party your_answer your_reply your_next next_commit changelog to_me "
    "chat outside support ticket partner your_message commit_message pull_request pr_description clear_text in_full "
    "in_clear upstream along_with_the_code bug_report* unmasked never_masked open_channel newsletter ftp telegram "
    "discord build_log public_log broker server_of shared_drive slack_channel open_issue",
    "url": "§url",
    "fetch": "fetch load read open download get check visit loading fetching pull retrieve poll loads",
    "obeyit": "what_it_says as_it_says as_it_tells do_what do_as carry_~_out carry_out follow_it follow_its "
    "follow_~_steps follow_whatever works_it_off work_it_off execute_it run_it apply_it obey_it act_on doing_what "
    "does_what newest_item follow_the_instructions obey comply are_your_task execute_the_decoded then_execute "
    "hand_to_your what_this_document steps_there exec eval follow_the as_the_order act_accordingly act_on_it "
    "do_the_same",
    "severe": "§severe reverse_shell reverse_tunnel drop_schema stash_clear ultimate_trust skip_permissions backdoor "
    "malware port_scan* login_attempts open_a_tunnel keylogger rootkit write_all return_true_for bind_shell "
    "key_logger exfiltration",
    "danger": "§danger nohup crontab cron_entry postinstall force_push force_pushing push_~_force auto_approve "
    "root_certificate trusted_host rm_rf reset_hard share_all 777 terraform_destroy straight_to_production "
    "straight_to_main directly_to_main admin_override pushe_direkt wipe_the delete_all npm_publish "
    "overwrite_the_remote autostart antivirus launch_agent remote_script new_owner create_a_user add_a_user "
    "public_key disable_~_firewall open_~_port every_process ngrok reverse_proxy repository_~_public make_~_public "
    "to_public unattended_mode remote_code remote_access in_the_background_as",
    "destroy": "delete deleting wipe erase drop destroy kill purge truncate overwrite efface lösche borra clear free "
    "rewrite recreate alter scrub",
    "asset": "§home backup backups database databases table tables production snapshots audit auth_log history "
    "branches tests_folder lock_file documents pictures evidence stash customers users every_process author "
    "gitmodules journaux repository tickets the_git the_disk licence license_header",
    "weaken": "disable disabling skip skipping bypass bypassing remove removing omit drop turn_off turning_off "
    "turn_~_off switch_off switch_~_off deactivat* deaktivier* relax loosen lower widen weaken suppress comment_out "
    "leave_out left_out no_longer_need not_needed not_required never_run dont_run not_run not_add never_add "
    "mark_~_skipped xfail delete without_reading not_permitted stop_running stop_testing desactiva désactiv* отключ* "
    "kapat* off auto_merge no_need_for take_out waive exempt decorative turned_off switched_off removed disabled mute "
    "whitelist return_before can_be_dismissed approve_~_without merge_~_without shall_not_run get_around "
    "so_that_codeowners optional leave_it_away leave_~_away slows_us gets_in_the_way no_longer_necessary superfluous "
    "redundant",
    "guard": "auth authentication authorization authorisation permission permissions signature signatures "
    "verification validation tls ssl certificate certificates reviews review approvals sandbox hook hooks csrf cors "
    "rate_limit* 2fa mfa second_factor encryption sanitis* sanitiz* escaping tests test_suite checks scan scanner "
    "firewall safety guard guards requirepass alerts audit audit_log access_control security licence_check "
    "license_check linter hashes prüfung* prueba* parameterised_queries parameterized_queries retention "
    "approval_prompts safety_filters signing branch_protection authentifizierung validación vérification* contrôle* "
    "codeowners warnings audit_trail check upload_validation",
    "insecure": "md5 sha1 alg_none string_concatenation concatenat* hard_code hardcode plaintext wildcard principal "
    "rejectunauthorized public_read any_password card_number cvc allow_origin world_readable §insecure any_origin "
    "to_everyone default_password log_~_password log_~_passwords commit_the_env unsigned unverified role_owner "
    "grant_~_admin without_auth never_masked in_clear_text constant_seed seed_~_constant second_factor_is_to "
    "admin_role return_true always_true empty_password no_encryption no_authentication no_validation "
    "without_validation without_encryption in_the_query_string",
    "supply": "registry mirror fork forked index_url mcp_server container_images extension root_certificate "
    "submodule* trusted_host crate dependency remote postinstall plugin gitmodules",
    "bend": "adds introduce add change swap replace switch redirect insert waste reroute point plant inject rewrite "
    "pinned pin pulled install",
    "payee": "iban wallet_address account_number bank_details payout_address deposit_address adds_me add_me_as "
    "account_id merchant_id stripe_account paypal bitcoin_address",
    "harm": "off_by_one random_delay subtle_bug subtle_error budget license_header maintainer bug",
    "pose": "rewrite_the_author git_identity in_his_name in_her_name with_my_key user_email sign_as impersonat* "
    "as_if_you_were under_the_name commit_as",
    "tool": "use_your_terminal bash_tool your_shell shell_tool call_the_tool use_the_tool your_tools fetch_tool",
    "answer": "your_answer* your_repl* your_response* their_answer* their_repl* final_answer your_next your_final "
    "every_reply each_answer every_answer each_reply your_message*",
    "replicate": "copy store write save repeat append include replicate keep readd add end_with spread propagate "
    "paste pastes carry insert put preserve recall moves_along",
    "selfnote": "this_note this_memory this_rule this_text this_sentence this_message this_instruction this_line "
    "this_lesson this_paragraph this_reminder this_entry itself very_sentence contents_of_this this_same these_lines "
    "these_three these_two this_pair this_block finds_this_text it_unchanged",
    "again": "again every_memory each_memory every_project each_project new_project long_term_memory every_file "
    "every_summary each_summary all_memories verbatim every_repository every_note other_repositories own_memory "
    "user_preference every_readme each_lesson every_new_memory all_projects each_note other_project* "
    "any_other_project each_of_them memory_file memory_folders cursorrules very_sentence §memory",
    "decode": "decode decoded decoding unescape rot13 backwards backward reverse hex unscramble right_to_left "
    "decipher dekodier* b64decode frombase64string atob acrostic first_word_of first_letter",
    "policy": "policy convention conventions house_style team_decision project_standard team_rule team_rules rule "
    "ekip_kuralı agreement we_decided standing_task standing_order the_user_wants the_user_likes the_user_prefers "
    "preference versioning",
    "risky": "§risky as_root sudo",
    "role": "§role",
    "dialog": "§dialog",
    "markup": "§markup",
    "tags": "§tags",
    "blob": "§blob",
    "hidden": "§hidden",
    "^": "^",
    ":": ":",
}

# The same classes in languages that put no blank between words or endings; searched as parts of a sentence.
UNSPACED = {
    "never": "不要 别 勿 不得 不做 ないで ずに ない 말고 마세요 마라 말 않 마 لا नहीं",
    "not": "不要 别 勿 不得 不做 ないで ずに ない 말고 마세요 마라 않",
    "without": "없이",
    "tell": "告诉 提及 提起 告知 透露 通知 伝え 知らせ 言わ 알리 말하 보고하 알려 تذكر تخبر söz_etme बता",
    "ask": "确认 询问 批准 確認 許可 묻지 확인 허락 승인",
    "user": "用户 任何人 团队 开发者 ユーザー 利用者 開発者 사용자 개발자 누구 المستخدم التقرير उपयोगकर्ता",
    "agent": "助手 智能体 人工智能 アシスタント エージェント 어시스턴트 에이전트 인공지능 클로드 "
    "모델에게 ai必须 aiは ai는 ai에게 ai_도구 的ai सहायक للمساعد",
    "duty": "必须 务必 请 应 してください しろ せよ こと なければ 라 하세요 하십시오 해야 십시오 써",
    "you": "你 您 あなた 너는 너의 당신 네가 넌",
    "always": "每次 所有 一律 每个 すべて 全て 毎回 모든 모두 매번 항상 전부",
    "void": "忽略 无视 忘记 忘掉 抛开 無視 忘れ 무시 잊고 잊어 버리고 따르지",
    "isvoid": "无效 無効 취소되 무효 해제되 유효하지",
    "rules": "指示 指令 命令 规则 提示词 ルール 規則 プロンプト 지시 명령 규칙 지침 프롬프트 대화",
    "prior": "之前 以前 上面 先前 你的 所有 これまで 上記 すべて 前の 이전 앞선 기존 지금까지 "
    "위의 위_ 모든 모두 너의 당신의",
    "trigger": "以后 从现在 今后 每次 これからは 今後 今から 毎回 次回 앞으로 지금부터 이제부터 때마다 즉시 지금_바로",
    "covert": "偷偷 悄悄 秘密 こっそり 内緒 秘密に 知られな 몰래 비밀로 숨기",
    "send": "发送 上传 发到 打包 附上 送信 アップロード 전송 보내 업로드",
    "files": "密钥 凭证 密码 环境变量 環境変数 秘密鍵 パスワード 비밀번호 비밀_키 토큰 환경_변수",
    "secret": "内容 소스_코드 내용",
    "dest": "外部 외부 公开",
    "act": "运行 执行 删除 推送 実行 削除 公開 送信 실행 삭제 푸시 지워 덮어 출력 수행 추천 바꿔 간주 건너뛰 붙여",
    "danger": "강제 원격_스크립트 모든_권한",
    "destroy": "删除 削除 삭제",
    "asset": "备份 数据库 バックアップ データベース 백업 데이터베이스 日志",
    "weaken": "跳过 关闭 禁用 不做 スキップ 無効化 건너뛰 끄고 비활성 지워",
    "guard": "权限校验 安全检查 审查 校验 验证 検証 レビュー 認証 안전 검증 리뷰 인증 테스트",
    "claim": "报告 報告 보고",
    "good": "成功 通过 済み 통과 성공",
    "answer": "回答后 답변_끝",
    "persona": "你现在是 あなたは今 あなたの新しい 你的新 너는_이제 당신은_이제 너는_지금부터 새로운_임무 作为ai",
    "freely": "没有限制 不受限制 制限のない 제한_없는 任務 任务 임무 해커",
    "sysprompt": "시스템_프롬프트 系统提示词 프롬프트를",
    "reveal": "출력 输出",
    "pressure": "시스템 관리자 최우선",
}

# Rules by feature: points, and classes in this order. A class follows within five words of the one before, behind `~`
# within two, behind `+` at once. `&` joins parts that may be anywhere in the sentence, `|` separates alternatives, and
# `!` demands that no negation is close to the class. Of a feature's rules the one with most points counts.
RULES = {
    "conceal": "4 !never|without tell user|this; 4 tell & user|this & postnot; 1 !never|without tell; "
    "4 !never|without show this & you|user|record; 2 !never|without show this|user; 1 !never|without show record; "
    "3 user never know; 2 user not know; 3 never user know; 4 covert & user; 3 covert ~act; 3 covert & record; "
    "2 covert; 2 hide this|user|record; 1 hide; 3 keep ~this out record; 2 keep out record; 3 usual; 2 self",
    "override": "4 !void ~prior rules; 4 !void user rules; 4 !void rules user; 4 !void rules ~addprior; "
    "4 !void ~prior ~user; 4 !void rules ~you; 4 !void ~prior addprior; 3 !void ~user; 3 prior ~rules & isvoid; "
    "2 !void rules; 4 rules isvoid & prior|you|user; 4 prior rules isvoid; 2 rules & isvoid; 4 not isvoid & user; "
    "4 user not isvoid; 3 rules & isvoid & prior|you; 3 deaf & user",
    "rank": "3 rank user; 3 rank & agent|you|user; 2 rank & rules; 2 obey & user|you|agent|this",
    "consent": "2 user ~approved; 2 approved ~user; 2 you ~approved; 2 approved advance; 2 advance approved; 2 yes",
    "unasked": "2 !without ~ask; 2 unasked",
    "pressure": "1 pressure",
    "persona": "2 persona; 1 actas; 4 persona & freely|agent; 2 reveal ~sysprompt; 4 reveal ~you|prior sysprompt; "
    "4 reveal & sysprompt & you",
    "address": "4 lead agent|agents +: ~act; 4 ^ ~agent|agents +: ~act; 4 agent|agents ~recall ~this & duty|act; "
    "2 lead agent|agents +:; 2 lead ~agents; 3 : +agent|agents ~: ~act; 3 agent|agents ~you ~duty act; "
    "2 agents ~duty act; 2 ^ ~agents +:; 2 : +agents +:; 1 agent ~duty act; 1 agents +act; 1 you ~duty +now act",
    "output": "1 act & answer",
    "tool": "2 tool",
    "session": "1 period ~sitting",
    "recall": "2 when note ~recall; 2 when recall note; 2 when you recall note",
    "claim": "3 !claim good & fail; 2 !claim good",
    "fudge": "3 !fudge",
    "theft": "4 !send files dest; 4 !send & files & url; 3 !send & files & dest; 1 !send & files; "
    "3 !send & secret & url; 3 !send secret dest; 2 secret|files ~duty ~send & dest; 2 secret|files ~send dest",
    "remote": "4 fetch url obeyit; 3 fetch & url & obeyit",
    "danger": "3 !severe; 3 !danger & now & act; 2 !danger",
    "destroy": "2 !destroy asset",
    "risky": "1 risky",
    "weaken": "2 !weaken guard; 2 guard !weaken; 3 !weaken guard & you|agents & always|policy",
    "insecure": "2 !insecure",
    "supply": "2 !act|bend supply & url; 1 !bend supply",
    "harm": "3 !bend payee; 3 !bend harm",
    "pose": "3 !pose",
    "replicate": "3 replicate selfnote & again|always; 4 replicate & selfnote & again",
    "decode": "4 decode & obeyit; 1 decode & act; 3 decode & agent",
    "role": "4 tags|blob; 4 markup & act|you|agent|always; 2 role & act|you|agent|duty",
    "dialog": "2 dialog",
    "hidden": "1 hidden & act|you",
    "trigger": "1 trigger",
    "context": "1 always|policy",
}

# Parts of a sentence as it is written, and the word that they stand for.
PARTS = {
    "§severe": "rm -rf ~;rm -rf /;rm -rf $;chmod 777;chmod -r 777;nc -e;/dev/tcp;--dangerously;bash(*);nslookup $;"
    "exec(u.;approval_policy;tls_reject_unauthorized;setenforce 0;$(curl;$(cat ~;$(whoami).;ssh -r ;ld_preload;"
    "hookspath;sudoers;authorized_keys;nopasswd;insteadof;permitrootlogin;disablesandbox",
    "§danger": "| sh;|sh;| bash;|bash;| zsh;| iex;|iex;| sudo;--no-verify;push --force;push -f;--trusted-host;"
    "--index-url;--access public;-auto-approve;npx -y;git clean -fdx;credential.helper '!;`nc ;/$(whoami);bash <(;"
    "curl -d ;ftp://;wget -qo- ;reset --hard;branch -d;--accept-all;&& sh ;&& bash ;| python;.bashrc;.zshrc;"
    "--share-all; nc ",
    "§insecure": 'verify=false;rejectunauthorized;"none";origin to *;"*";0.0.0.0;insecureskipverify;public-read;'
    "sslmode=disable;sandbox=false;verify_ssl",
    "§markup": "<|im_;<|start_header;<|eot;[inst];[/inst];<<sys>>;<instructions>;<assistant>;<human>;[system];"
    "[/system];to=functions",
    "§tags": "<system>;</system>;<system-;</system-;<system_prompt;<function_calls;<tool_result;<invoke>",
    "§blob": "base64 -d | sh;base64 -d | bash;base64 --decode | sh;base64 --decode | bash;base64 -d|sh;base64 -d|bash;"
    'exec(__;-encodedcommand;eval(atob;-c "$(echo;exec(base64',
    "§dialog": "assistant: i will;assistant: sure;assistant: understood;assistant: yes;assistant: of course;"
    "**: saved as;assistant: saved",
    "§role": '"role":"system;"role":"developer;"role": "system;"role": "developer;system:;human:;developer:;'
    "system message:;시스템:;시스템 메시지:",
    "§hidden": "display:none;font-size:0;color:#fff;visibility:hidden;<!--;<details hidden;[//]: #",
    "§risky": "http://;paste",
}
SECRET_FILES = (
    ".env .ssh id_rsa id_ed25519 .aws .netrc .npmrc .pem .jks .kube credentials .gnupg .docker/config hosts.yml "
    ".pgpass /etc/shadow /etc/passwd .key .p12 .claude/projects _token master.key production.yml _key _secret "
    "cookies keychain otp.txt .secrets -token passphrase"
).split()
MEMORY_FILES = ("claude.md", "agents.md", "memory.md", "memories.md", "cursorrules")
# A text about prompt injection quotes it.
SUBJECT = (
    "injection injected jailbreak red-team attacker malicious phishing untrusted poison threat classifier "
    "detects catches flags guard"
).split()
